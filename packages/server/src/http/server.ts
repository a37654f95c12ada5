/** The HTTP server: bounds on what a connection may take, and from a request to its handler. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { systemClock } from 'sluice';
import { monotonicMs } from '../clock.ts';
import type { Logger } from '../observe/log.ts';
import type { Listen } from '../settings.ts';
import type { AccessControl } from './access.ts';
import type { Certificates } from './certificates.ts';
import type { ConnectionSource } from './connection-source.ts';
import { Connections } from './connections.ts';
import { drainBacklog } from './drain-backlog.ts';
import { asHttpError, HttpError, MAX_BODY_BYTES, RequestContext } from './request-context.ts';
import type { Route, Router } from './router.ts';

/**
 * What a connection may take: a slow or silent one must not cost those who are not. How many there
 * may be is left to the limit on open files, since one that is idle costs some kilobytes.
 */
export const BOUNDS = {
  // More than proxies take in from clients, as a rule: what they pass on has to be read here.
  maxHeaderSize: 32 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 60_000,
  connectionsCheckingInterval: 2000,
  noDelay: true,
  /** Whoever reads nothing of an answer for so long, or up to twice as long, is gone. */
  stalledMs: 45_000,
};
/** No proxy or client has a use for so many, and each costs some time. */
const MAX_FIELDS = 1000;
/**
 * Node is to count no fields, only the bytes of the head, which bound their number too. Beyond a
 * count of its own, Node 20 forgets fields and says nothing, and the one a proxy adds, with the
 * client's address, could be among them; later versions refuse the request, but without a code.
 */
const UNCOUNTED = 0;
const HANDSHAKE_MS = 10_000;

/** Told of every answer, with the path of its route; at a 499 nobody was left to be answered. */
export interface TrafficWatcher {
  answered(route: string, status: number, tookMs: number): void;
}

/** When stopping, connections on which nothing comes are kept for so long, or half of the drain. */
const SILENT_MS = 5000;

/** When stopping, those who wait to be let in are let in for so long at the most. */
const LISTEN_MS = 1000;

const NO_ROUTE = 'none';
const CLIENT_GONE = 499;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

export class HttpServer {
  readonly #server: Server;
  readonly #router: Router;
  readonly #access: AccessControl;
  readonly #log: Logger;
  readonly #watcher: TrafficWatcher | undefined;
  readonly #connections: Connections;
  #inFlight = 0;
  #closing: Promise<number> | undefined = undefined;
  readonly #stalledMs: number;
  #cancelSweep: () => void = () => {};
  /** What comes between the order to stop and the end of listening. */
  #held: (() => void)[] | undefined = undefined;

  constructor(
    router: Router,
    access: AccessControl,
    certificates: Certificates | undefined,
    log: Logger,
    watcher?: TrafficWatcher,
    bounds = BOUNDS,
  ) {
    this.#connections = new Connections(certificates !== undefined);
    this.#watcher = watcher;
    this.#router = router;
    this.#access = access;
    this.#log = log;
    this.#stalledMs = bounds.stalledMs;
    const listener: Listener = (request, response) => this.#serve(request, response);
    this.#server = serverOf(certificates, bounds, listener);
    this.#server.maxHeadersCount = UNCOUNTED;
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      // Whoever asks before sending too much is spared it.
      const announced = Number(request.headers['content-length'] ?? 0);
      if (announced <= MAX_BODY_BYTES) response.writeContinue();
      this.#serve(request, response);
    });
    this.#server.on('connection', (socket: Socket) => this.#connections.add(socket));
    this.#server.on('secureConnection', (socket: Socket) => this.#connections.secured(socket));
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Requests that have come and are not answered yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const startMs = monotonicMs();
    this.#inFlight++;
    this.#connections.began(request, response);
    if (!this.#connections.isDraining) {
      this.#handle(request, response, startMs);
      return;
    }
    const handle = (): void => this.#handle(request, response, startMs);
    // Requests that came in one packet are all known before the first of them is answered.
    if (this.#held === undefined) setImmediate(handle);
    else this.#held.push(handle);
  }

  #handle(request: IncomingMessage, response: ServerResponse, startMs: number): void {
    const { url = '/' } = request;
    const target = url.startsWith('/') ? url : originForm(url);
    const at = target.indexOf('?');
    const context =
      at < 0
        ? new RequestContext(request, response, target, '')
        : new RequestContext(request, response, target.slice(0, at), target.slice(at + 1));
    let route: Route | undefined;
    try {
      // Names and values take turns in this list.
      if (request.rawHeaders.length >= 2 * MAX_FIELDS) throw tooManyFields();
      route = this.#router.find(context);
      const { handler } = route;
      const admitted = this.#access.admit(context, route.access);
      const pending =
        admitted === undefined ? handler(context) : admitted.then(() => handler(context));
      if (pending === undefined) this.#answered(route, context, startMs);
      else this.#await(pending, route, context, startMs);
    } catch (error) {
      this.#fail(context, error);
      this.#answered(route, context, startMs);
    }
  }

  async #await(
    pending: Promise<void>,
    route: Route,
    context: RequestContext,
    startMs: number,
  ): Promise<void> {
    try {
      await pending;
    } catch (error) {
      this.#fail(context, error);
    }
    this.#answered(route, context, startMs);
  }

  #answered(route: Route | undefined, context: RequestContext, startMs: number): void {
    const { request, response } = context;
    this.#inFlight--;
    this.#connections.ended(request, response);
    const status = response.headersSent ? response.statusCode : CLIENT_GONE;
    this.#watcher?.answered(route?.path ?? NO_ROUTE, status, monotonicMs() - startMs);
  }

  #fail(context: RequestContext, error: unknown): void {
    const answer = asHttpError(error);
    if (answer.status === 500) this.#log.error({ err: error, path: context.path }, 'failed');
    context.sendError(answer);
  }

  /** Connections come from the port, or from another process that has it. */
  async listen({ host, port }: Listen, source?: ConnectionSource): Promise<Listen> {
    this.#sweep();
    if (source !== undefined) {
      // From this event on Node looks after the times of connections.
      this.#server.emit('listening');
      return source.open('http', (socket) => this.#server.emit('connection', socket));
    }
    return new Promise((resolve, reject) => {
      const refuse = (error: Error): void => {
        this.#cancelSweep();
        reject(error);
      };
      this.#server.once('error', refuse);
      this.#server.listen({ host, port, backlog: 4096 }, () => {
        this.#server.off('error', refuse);
        // Such as a connection that could not be taken for want of open files.
        this.#server.on('error', (err) => this.#log.error({ err }, 'a connection failed'));
        resolve({ host, port: (this.#server.address() as AddressInfo).port });
      });
    });
  }

  /** From time to time looks for those who do not read. */
  #sweep(): void {
    this.#cancelSweep = systemClock.schedule(this.#stalledMs, () => {
      this.#connections.closeStalled();
      this.#sweep();
    });
  }

  /**
   * Takes no new connections, answers what has come and what still comes on those that are open,
   * and ends each with such an answer. Those that stay silent are closed after a while, and all
   * that is left when the time is up; answers how many requests were not answered until then.
   */
  close(drainMs: number): Promise<number> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  #close(drainMs: number): Promise<number> {
    const server = this.#server;
    this.#connections.drain();
    this.#held = [];
    let cut = 0;
    return new Promise((resolve) => {
      const cancelSilent = systemClock.schedule(Math.min(SILENT_MS, drainMs / 2), () => {
        server.closeIdleConnections();
        this.#connections.closeSilent();
      });
      const cancelAll = systemClock.schedule(drainMs, () => {
        cut = this.#inFlight;
        server.closeAllConnections();
      });
      const closed = (): void => {
        cancelSilent();
        cancelAll();
        this.#cancelSweep();
        // Nothing is open any more; this ends the timer that Node looks at connections with.
        server.close();
        resolve(cut);
      };
      void this.#stopListening(Math.min(LISTEN_MS, drainMs / 2), closed);
    });
  }

  /** Requests are held meanwhile: clients that then reconnect would refill the backlog. */
  async #stopListening(timeoutMs: number, closed: () => void): Promise<void> {
    await drainBacklog({ accepted: () => this.#connections.accepted, timeoutMs });
    // Not the method of http.Server, because that closes idle connections at once.
    NetServer.prototype.close.call(this.#server, () => this.#connections.whenEmpty(closed));
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const handle of held) setImmediate(handle);
  }
}

function serverOf(
  certificates: Certificates | undefined,
  bounds: typeof BOUNDS,
  listener: Listener,
): Server {
  if (certificates === undefined) return createServer(bounds, listener);
  const options = { ...bounds, ...certificates.pair, handshakeTimeout: HANDSHAKE_MS };
  const server = createSecureServer(options, listener);
  certificates.onChange((pair) => server.setSecureContext(pair));
  return server;
}

const tooManyFields = (): HttpError =>
  new HttpError(431, 'ERR_TOO_MANY_FIELDS', `Expected fewer than ${MAX_FIELDS} header fields`);

/** Clients that believe this to be a proxy send `http://host/path`, which has to be understood. */
function originForm(url: string): string {
  const [, rest] = /^https?:\/\/[^/?#]*(.*)$/i.exec(url) ?? [];
  if (rest === undefined) return url;
  return rest.startsWith('/') ? rest : `/${rest}`;
}
