/**
 * HTTP/2 connections for gRPC, with timeouts and graceful shutdown. A connection is shut down in
 * two steps. A first GOAWAY frame announces the shutdown and rejects no call. A ping follows. When
 * the client acknowledges the ping, all calls that it sent before it received the GOAWAY have
 * arrived. Then a second GOAWAY names the last call, and the connection ends when all calls are
 * complete.
 */
import {
  constants,
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { systemClock } from 'sluice';
import { monotonicMs } from '../clock.ts';
import type { Certificates } from '../http/certificates.ts';
import type { ConnectionSource } from '../http/connection-source.ts';
import { drainBacklog } from '../http/drain-backlog.ts';
import type { Logger } from '../observe/log.ts';
import type { Listen } from '../settings.ts';
import { type Method, receive, refuse, STATUS } from './grpc-calls.ts';

/** Limits per connection. If all streams are in use, Envoy opens another connection. */
export const GRPC_BOUNDS = {
  maxConcurrentStreams: 1000,
  /** Envoy sends a few hundred bytes of headers. */
  maxHeaderListSize: 16 * 1024,
  maxHeaderFields: 100,
  /** Timeout for the HTTP/2 preface, including the TLS handshake. */
  beginMs: 10_000,
  /** A connection without calls gets a GOAWAY after this time. */
  idleMs: 60_000,
  /** A connection without calls is pinged after this time. This is also the timeout of the ping. */
  pingMs: 5000,
  /** If a client reads nothing of its pending responses for this time, its connection is closed. */
  stalledMs: 45_000,
  /** Interval at which the timeouts of all connections are checked. */
  sweepMs: 2000,
};

/** Timeout for the acknowledgement of the ping. At most half of the drain time is used. */
const ACKNOWLEDGE_MS = 1000;
/** Timeout for the client to close a connection after the end of its session. */
const ENDING_MS = 1000;
/** The highest stream number. A GOAWAY with this number rejects no call. */
const MAX_STREAM_ID = 2 ** 31 - 1;
/** On shutdown, the backlog is accepted for this long, but at most half of the drain time. */
const LISTEN_MS = 1000;

interface Connection {
  readonly socket: Socket;
  readonly bornMs: number;
  session: ServerHttp2Session | undefined;
  /** Whether the settings of the client have arrived. */
  hasBegun: boolean;
  calls: number;
  /** Time at which the last call ended. */
  idleSinceMs: number;
  /** Time of a ping that has not been acknowledged. */
  pingedMs?: number | undefined;
  /** Time of the last acknowledged ping. */
  acknowledgedMs?: number;
  written: number;
  writtenAtMs: number;
  /** Whether the first GOAWAY was sent. */
  isEnding?: boolean;
  /** Set when the session has ended and the socket is still open. */
  endedMs?: number;
}

export class GrpcTransport {
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #server: Http2Server;
  readonly #log: Logger;
  readonly #bounds: typeof GRPC_BOUNDS;
  readonly #connections = new Map<string, Connection>();
  #accepted = 0;
  #drainMs: number | undefined = undefined;
  #cancelSweep: () => void = () => {};
  #onEmpty: () => void = () => {};

  constructor(
    methods: ReadonlyMap<string, Method>,
    certificates: Certificates | undefined,
    log: Logger,
    bounds = GRPC_BOUNDS,
  ) {
    this.#methods = methods;
    this.#log = log;
    this.#bounds = bounds;
    const server = serverOf(certificates, bounds);
    this.#server = server;
    // Prepended to the listener of HTTP/2, which creates the session.
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
    server.on('session', (session: ServerHttp2Session) => this.#begin(session));
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) =>
      this.#call(stream, headers),
    );
    // Emitted for a TLS client that does not offer HTTP/2.
    server.on('unknownProtocol', (socket: Socket) => socket.destroy());
    // Node closes the connection after a session error, so there is nothing to do.
    server.on('sessionError', () => {});
    server.on('tlsClientError', (_error: Error, socket: Socket) => socket.destroy());
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Accepts connections on the port, or from `source`. Resolves to the address. */
  async listen({ host, port }: Listen, source?: ConnectionSource): Promise<Listen> {
    const server = this.#server;
    this.#sweepLater();
    if (source !== undefined)
      return source.open('grpc', (socket) => server.emit('connection', socket));
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#cancelSweep();
        reject(error);
      };
      server.once('error', fail);
      server.listen({ host, port, backlog: 4096 }, () => {
        server.off('error', fail);
        server.on('error', (err) => this.#log.error({ err }, 'connection failed'));
        resolve({ host, port: (server.address() as AddressInfo).port });
      });
    });
  }

  #add(socket: Socket): void {
    this.#accepted++;
    const id = idOf(socket);
    const nowMs = monotonicMs();
    const connection: Connection = {
      ...{ socket, bornMs: nowMs, session: undefined, hasBegun: false },
      ...{ calls: 0, idleSinceMs: nowMs, written: 0, writtenAtMs: nowMs },
    };
    this.#connections.set(id, connection);
    socket.on('error', () => {});
    // TCP keep-alive detects peers that disappeared.
    socket.setKeepAlive(true, 60_000);
    socket.once('close', () => {
      if (this.#connections.get(id) === connection) this.#connections.delete(id);
      if (this.#connections.size === 0) this.#onEmpty();
    });
  }

  #begin(session: ServerHttp2Session): void {
    const connection = this.#connectionOf(session);
    session.on('error', () => {});
    if (connection === undefined) {
      session.destroy();
      return;
    }
    connection.session = session;
    session.once('remoteSettings', () => {
      connection.hasBegun = true;
      if (this.#drainMs !== undefined) this.#announceEnd(connection, this.#drainMs);
    });
  }

  /**
   * Returns the connection of a session. Looks it up by addresses, because over TLS the session has
   * a different socket object than the connection.
   */
  #connectionOf(session: ServerHttp2Session): Connection | undefined {
    return session.socket === undefined ? undefined : this.#connections.get(idOf(session.socket));
  }

  #call(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    stream.on('error', () => {});
    const connection = stream.session && this.#connectionOf(stream.session as ServerHttp2Session);
    if (!connection) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    connection.calls++;
    stream.once('close', () => {
      connection.calls--;
      connection.idleSinceMs = monotonicMs();
    });
    const isGrpc = /^application\/grpc(?:$|[+;])/.test(headers['content-type'] ?? '');
    const method = this.#methods.get(headers[':path'] ?? '');
    if (headers[':method'] !== 'POST') sendStatus(stream, 405);
    else if (!isGrpc) sendStatus(stream, 415);
    else if (method === undefined) refuse(stream, STATUS.UNIMPLEMENTED, 'Unknown method');
    else receive(method, stream, headers, connection.socket.remoteAddress ?? '');
  }

  #sweepLater(): void {
    this.#cancelSweep = systemClock.schedule(this.#bounds.sweepMs, () => {
      const nowMs = monotonicMs();
      for (const each of this.#connections.values()) this.#sweep(each, nowMs);
      this.#sweepLater();
    });
  }

  #sweep(connection: Connection, nowMs: number): void {
    const { socket, session, hasBegun, calls, bornMs, idleSinceMs } = connection;
    const { beginMs, idleMs, stalledMs } = this.#bounds;
    if (session === undefined || !hasBegun) {
      if (nowMs - bornMs >= beginMs) socket.destroy();
      return;
    }
    if (session.destroyed) {
      // Node ends the socket and waits for the client to close it, which may never happen.
      connection.endedMs ??= nowMs;
      if (nowMs - connection.endedMs >= ENDING_MS) socket.destroy();
      return;
    }
    const { bytesWritten, writableLength } = session.socket;
    const written = bytesWritten - writableLength;
    const hasPending = writableLength > 0;
    if (!hasPending || written !== connection.written) connection.writtenAtMs = nowMs;
    connection.written = written;
    if (nowMs - connection.writtenAtMs >= stalledMs) socket.destroy();
    else if (calls === 0 && nowMs - idleSinceMs >= idleMs) {
      // After the GOAWAY, the client has `idleMs` to close the connection.
      if (session.closed || nowMs - idleSinceMs >= 2 * idleMs) socket.destroy();
      else this.#announceEnd(connection, idleMs);
    } else if (calls === 0 && !session.closed) this.#ping(connection, nowMs);
  }

  /**
   * Pings the client, and closes the connection if it does not acknowledge in time. Needed because
   * Node stops reading from a connection after invalid frames, and then does not notice its end.
   */
  #ping(connection: Connection, nowMs: number): void {
    const { session, socket, idleSinceMs, pingedMs, acknowledgedMs = 0 } = connection;
    const { pingMs } = this.#bounds;
    if (pingedMs !== undefined) {
      if (nowMs - pingedMs >= pingMs) socket.destroy();
    } else if (nowMs - Math.max(idleSinceMs, acknowledgedMs) >= pingMs) {
      connection.pingedMs = nowMs;
      const isSent = session!.ping(() => {
        connection.pingedMs = undefined;
        connection.acknowledgedMs = monotonicMs();
      });
      if (!isSent) socket.destroy();
    }
  }

  /** Ends a connection in two steps; see the header of this file. */
  #announceEnd(connection: Connection, withinMs: number): void {
    const { session, socket } = connection;
    if (session === undefined || session.closed || session.destroyed) return;
    if (connection.isEnding) return;
    connection.isEnding = true;
    const cancel = systemClock.schedule(Math.min(ACKNOWLEDGE_MS, withinMs / 2), () => end());
    const end = (): void => {
      cancel();
      if (session.closed || session.destroyed) return;
      // Sends the second GOAWAY, and ends the session after its last call.
      session.close();
    };
    session.once('close', cancel);
    session.once('close', () => systemClock.schedule(ENDING_MS, () => socket.destroy()));
    try {
      session.goaway(constants.NGHTTP2_NO_ERROR, MAX_STREAM_ID);
      if (!session.ping(() => end())) end();
    } catch {
      // The session has ended meanwhile.
      socket.destroy();
    }
  }

  /**
   * Graceful shutdown: stops accepting connections, completes every received call, and closes the
   * remaining connections after `drainMs`. Resolves when no connection is open.
   */
  async close(drainMs: number): Promise<void> {
    await drainBacklog({
      accepted: () => this.#accepted,
      timeoutMs: Math.min(LISTEN_MS, drainMs / 2),
      maxTurnMs: Number.POSITIVE_INFINITY,
    });
    if (this.#server.listening) this.#server.close();
    this.#drainMs = drainMs;
    for (const each of this.#connections.values()) {
      if (each.hasBegun) this.#announceEnd(each, drainMs);
    }
    const cancelSilent = systemClock.schedule(Math.min(ACKNOWLEDGE_MS, drainMs / 2), () => {
      for (const { hasBegun, socket } of this.#connections.values())
        if (!hasBegun) socket.destroy();
    });
    const cancelAll = systemClock.schedule(drainMs, () => {
      for (const { socket } of this.#connections.values()) socket.destroy();
    });
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
      if (this.#connections.size === 0) resolve();
    });
    cancelSilent();
    cancelAll();
    this.#cancelSweep();
  }
}

function serverOf(
  certificates: Certificates | undefined,
  { maxConcurrentStreams, maxHeaderListSize, maxHeaderFields, beginMs }: typeof GRPC_BOUNDS,
): Http2Server {
  const options = {
    settings: { maxConcurrentStreams, maxHeaderListSize, enablePush: false },
    maxHeaderListPairs: maxHeaderFields,
  };
  if (certificates === undefined) return createServer(options);
  const tls = { ...options, ...certificates.pair, handshakeTimeout: beginMs };
  const server = createSecureServer(tls);
  certificates.onChange((pair) => server.setSecureContext(pair));
  return server as unknown as Http2Server;
}

function sendStatus(stream: ServerHttp2Stream, status: number): void {
  stream.respond({ ':status': status }, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

/** Identifies a connection within this process. */
const idOf = ({
  remoteAddress,
  remotePort,
  localAddress,
  localPort,
}: Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'>): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
