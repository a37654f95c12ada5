/** The HTTP server: limits per connection, dispatch to handlers, graceful shutdown. */
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
import { ServiceRequest } from './service-request.ts';

/**
 * Limits per connection, so that slow or silent clients do not affect others. The number of
 * connections is limited only by the number of open files. An idle connection takes a few KB.
 */
export const BOUNDS = {
  // More than common proxies accept by default, because the headers that they forward must fit.
  maxHeaderSize: 32 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 60_000,
  connectionsCheckingInterval: 2000,
  noDelay: true,
  /**
   * If a client reads nothing of its response, it is disconnected after one to two times this time.
   */
  stallTimeoutMs: 45_000,
};
const MAX_FIELDS = 1000;
/**
 * Value of `maxHeadersCount` for "no limit". With a limit, Node 20 silently drops further headers,
 * such as the client address that a proxy appends. `maxHeaderSize` already bounds the number.
 */
const UNLIMITED = 0;
const HANDSHAKE_MS = 10_000;

/**
 * Called for every response with the path of its route. The status is 499 if the client
 * disconnected before the response.
 */
export interface TrafficWatcher {
  recordResponse(route: string, status: number, tookMs: number): void;
}

/**
 * On shutdown, connections without a request are closed after this time, but at most after half of
 * the drain time.
 */
const SILENT_MS = 5000;

/** On shutdown, connections in the kernel's backlog are accepted for at most this long. */
const MAX_ACCEPT_MS = 1000;

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
  readonly #stallTimeoutMs: number;
  #cancelCheck: () => void = () => {};
  /** Requests that arrive while the backlog is drained. They are handled afterwards. */
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
    this.#stallTimeoutMs = bounds.stallTimeoutMs;
    const listener: Listener = (request, response) => this.#serve(request, response);
    this.#server = serverOf(certificates, bounds, listener);
    this.#server.maxHeadersCount = UNLIMITED;
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      // If the announced body is too large, `100 Continue` is not sent, so the client does not send
      // the body.
      const announced = Number(request.headers['content-length'] ?? 0);
      if (announced <= MAX_BODY_BYTES) response.writeContinue();
      this.#serve(request, response);
    });
    this.#server.on('connection', (socket: Socket) => this.#connections.add(socket));
    this.#server.on('secureConnection', (socket: Socket) =>
      this.#connections.onHandshakeEnd(socket),
    );
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Requests without a response yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const startMs = monotonicMs();
    this.#inFlight++;
    this.#connections.onRequest(request, response);
    if (!this.#connections.isDraining) {
      this.#handle(request, response, startMs);
      return;
    }
    const handle = (): void => this.#handle(request, response, startMs);
    // With `setImmediate`, all pipelined requests of a packet are registered before one is handled.
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
      // `rawHeaders` alternates names and values.
      if (request.rawHeaders.length >= 2 * MAX_FIELDS) throw tooManyFields();
      route = this.#router.find(context);
      const { handler } = route;
      const admitted = this.#access.admit(context, route.access);
      const pending =
        admitted === undefined ? handler(context) : admitted.then(() => handler(context));
      if (pending === undefined) this.#onResponse(route, context, startMs);
      else this.#await(pending, route, context, startMs);
    } catch (error) {
      this.#fail(context, error);
      this.#onResponse(route, context, startMs);
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
    this.#onResponse(route, context, startMs);
  }

  #onResponse(route: Route | undefined, context: RequestContext, startMs: number): void {
    const { request, response } = context;
    this.#inFlight--;
    this.#connections.onHeadersSent(request, response);
    const status = response.headersSent ? response.statusCode : CLIENT_GONE;
    this.#watcher?.recordResponse(route?.path ?? NO_ROUTE, status, monotonicMs() - startMs);
  }

  #fail(context: RequestContext, error: unknown): void {
    const failure = asHttpError(error);
    if (failure.status === 500) {
      this.#log.error({ err: error, path: context.path }, 'request failed');
    }
    context.sendError(failure);
  }

  /** Accepts connections on the port, or from `source`. Resolves to the address. */
  async listen({ host, port }: Listen, source?: ConnectionSource): Promise<Listen> {
    this.#checkStalled();
    if (source !== undefined) {
      // Makes Node start its checks of connection timeouts.
      this.#server.emit('listening');
      return source.open('http', (socket) => this.#server.emit('connection', socket));
    }
    return new Promise((resolve, reject) => {
      const onError = (error: Error): void => {
        this.#cancelCheck();
        reject(error);
      };
      this.#server.once('error', onError);
      this.#server.listen({ host, port, backlog: 4096 }, () => {
        this.#server.off('error', onError);
        // For example EMFILE: too many open files.
        this.#server.on('error', (err) =>
          this.#log.error({ err }, 'accepting an HTTP connection failed'),
        );
        resolve({ host, port: (this.#server.address() as AddressInfo).port });
      });
    });
  }

  /** Closes stalled connections periodically. */
  #checkStalled(): void {
    this.#cancelCheck = systemClock.schedule(this.#stallTimeoutMs, () => {
      this.#connections.closeStalled();
      this.#checkStalled();
    });
  }

  /**
   * Graceful shutdown. Stops accepting connections, and closes each open connection with its next
   * response. Connections without a request are closed after at most 5 s, all others after
   * `drainMs`. Resolves to the number of requests that were cut off after `drainMs`.
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
        this.#cancelCheck();
        // Stops Node's timer that checks connection timeouts.
        server.close();
        resolve(cut);
      };
      void this.#stopListening(Math.min(MAX_ACCEPT_MS, drainMs / 2), closed);
    });
  }

  /**
   * Accepts the connections in the backlog, then closes the listening socket. Requests are held
   * meanwhile: clients that got a response would reconnect and refill the backlog.
   */
  async #stopListening(timeoutMs: number, closed: () => void): Promise<void> {
    await drainBacklog({ accepted: () => this.#connections.accepted, timeoutMs });
    // `close` of net.Server, the documented base class, keeps existing connections. `close` of
    // http.Server also closes idle connections at once, and has no option to keep them. A client
    // that is just sending a request on an idle connection would get a reset.
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
  const own = { ...bounds, IncomingMessage: ServiceRequest };
  if (certificates === undefined) return createServer(own, listener);
  const options = { ...own, ...certificates.pair, handshakeTimeout: HANDSHAKE_MS };
  const server = createSecureServer(options, listener);
  certificates.onChange((pair) => server.setSecureContext(pair));
  return server;
}

const tooManyFields = (): HttpError =>
  new HttpError(431, 'ERR_TOO_MANY_FIELDS', `Expected fewer than ${MAX_FIELDS} headers`);

/** Returns the path and query of a URL in absolute form, `http://host/path`, as sent to proxies. */
function originForm(url: string): string {
  const [, rest] = /^https?:\/\/[^/?#]*(.*)$/i.exec(url) ?? [];
  if (rest === undefined) return url;
  return rest.startsWith('/') ? rest : `/${rest}`;
}
