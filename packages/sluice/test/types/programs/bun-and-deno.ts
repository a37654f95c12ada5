/** Servers of Bun and Deno. Both are declared with the part of their types that handlers meet. */
import { rateLimit } from 'sluice/fetch';

interface BunServer {
  requestIP(request: Request): { address: string; port: number } | null;
  upgrade(request: Request): boolean;
}
declare const Bun: {
  serve(options: {
    fetch(
      request: Request,
      server: BunServer,
    ): Response | undefined | Promise<Response | undefined>;
  }): BunServer;
};
interface DenoInfo {
  remoteAddr: { transport: 'tcp'; hostname: string; port: number };
}
declare const Deno: {
  serve(handler: (request: Request, info: DenoInfo) => Response | Promise<Response>): unknown;
};

const limited = rateLimit({ limit: 100, window: '1m' });

Bun.serve({ fetch: limited(() => new Response('hello')) });
Bun.serve({
  fetch: limited((request: Request, server: BunServer) =>
    server.upgrade(request) ? undefined : new Response('expected a WebSocket', { status: 400 }),
  ),
});
const address = (_request: Request, info: DenoInfo) => info.remoteAddr.hostname;
Deno.serve(limited(() => new Response('hello')));
Deno.serve(
  rateLimit({ limit: 5, address })((_request, info) => new Response(info.remoteAddr.hostname)),
);
