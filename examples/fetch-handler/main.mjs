/**
 * Handlers that take a Request and return a Response, as in app/api/hello/route.js of Next.js.
 *
 *     npm run build && node examples/fetch-handler/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/; done
 *
 * The sixth response is a 429 with Retry-After. GET and POST share the limit.
 */
import { createServer } from 'node:http';
import { rateLimit } from 'sluice/fetch';

const limited = rateLimit({
  limit: 5,
  window: '10s',
  // A Request does not contain the client address, but hosting platforms send it in a header. Use a
  // header that your platform always overwrites: clients can set all other headers.
  address: (request) => request.headers.get('x-real-ip') ?? undefined,
});

export const GET = limited(() => Response.json({ hello: 'world' }));

export const POST = limited(async (request) => Response.json({ got: await request.text() }));

// The code below replaces the hosting platform, so that the example runs by itself.
async function respond(incoming, outgoing) {
  const handler = { GET, POST }[incoming.method] ?? (() => new Response(null, { status: 405 }));
  const request = new Request(`http://127.0.0.1${incoming.url}`, {
    method: incoming.method,
    headers: { ...incoming.headers, 'x-real-ip': incoming.socket.remoteAddress },
    ...(incoming.method === 'POST' && { body: incoming, duplex: 'half' }),
  });
  const response = await handler(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(await response.text());
}

const server = createServer((incoming, outgoing) => {
  respond(incoming, outgoing).catch(() => outgoing.writeHead(500).end());
});
server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
