/** The HTTP server: bounds on what a connection may take, and from a request to its handler. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { systemClock } from 'sluice';
import type { Logger } from '../log.ts';
import type { Listen, Settings } from '../settings.ts';
import { AccessControl } from './access.ts';
import { asHttpError, Exchange } from './exchange.ts';
import type { Router } from './router.ts';

/** What a connection may take: a slow or silent one must not cost those who are not. */
const BOUNDS = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 60_000,
  connectionsCheckingInterval: 2000,
  noDelay: true,
};

type ServerSettings = Pick<Settings, 'adminToken' | 'listen' | 'tlsCert' | 'tlsKey'>;

export class HttpServer {
  readonly #server: Server;
  readonly #router: Router;
  readonly #access: AccessControl;
  readonly #log: Logger;
  #isDraining = false;

  constructor(router: Router, settings: ServerSettings, log: Logger) {
    this.#router = router;
    this.#access = new AccessControl(settings);
    this.#log = log;
    const listener = (request: IncomingMessage, response: ServerResponse): void =>
      this.#serve(request, response);
    const { tlsCert, tlsKey } = settings;
    this.#server =
      tlsCert === undefined || tlsKey === undefined
        ? createServer(BOUNDS, listener)
        : createSecureServer(
            { ...BOUNDS, cert: readFileSync(tlsCert), key: readFileSync(tlsKey) },
            listener,
          );
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { url = '/' } = request;
    const at = url.indexOf('?');
    const exchange =
      at < 0
        ? new Exchange(request, response, url, '')
        : new Exchange(request, response, url.slice(0, at), url.slice(at + 1));
    if (this.#isDraining) response.setHeader('connection', 'close');
    try {
      const { handler, access } = this.#router.find(exchange);
      this.#access.admit(exchange, access);
      const pending = handler(exchange);
      if (pending !== undefined) pending.catch((error) => this.#fail(exchange, error));
    } catch (error) {
      this.#fail(exchange, error);
    }
  }

  #fail(exchange: Exchange, error: unknown): void {
    const answer = asHttpError(error);
    if (answer.status === 500) this.#log.error({ err: error, path: exchange.path }, 'failed');
    exchange.sendError(answer);
  }

  listen({ host, port }: Listen): Promise<Listen> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host, port, backlog: 4096 }, () => {
        this.#server.off('error', reject);
        resolve({ host, port: (this.#server.address() as AddressInfo).port });
      });
    });
  }

  /** Takes no new connections, and waits until those that are there have been answered. */
  close(drainMs: number): Promise<void> {
    this.#isDraining = true;
    return new Promise((resolve) => {
      const keep = systemClock.schedule(drainMs, () => this.#server.closeAllConnections());
      this.#server.close(() => {
        keep();
        resolve();
      });
      this.#server.closeIdleConnections();
    });
  }
}
