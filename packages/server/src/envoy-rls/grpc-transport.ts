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
import { type Method, receive, rejectCall, STATUS } from './grpc-calls.ts';

/** Limits per connection. If all streams are in use, Envoy opens another connection. */
export const GRPC_BOUNDS = {
  maxConcurrentStreams: 1000,
  /** Envoy sends a few hundred bytes of headers. */
  maxHeaderListSize: 16 * 1024,
  maxHeaderFields: 100,
  /** Timeout for the HTTP/2 preface, including the TLS handshake. */
  prefaceTimeoutMs: 10_000,
  /** The server sends a GOAWAY on a connection that has had no calls for this time. */
  idleMs: 60_000,
  /**
   * The server pings a connection that has had no calls for this time. It waits as long for the
   * acknowledgement.
   */
  pingMs: 5000,
  /**
   * If responses are pending and a client reads nothing for this time, its connection is closed.
   */
  stallTimeoutMs: 45_000,
  /** Interval at which the timeouts of all connections are checked. */
  checkIntervalMs: 2000,
};

/**
 * Maximum time to wait for the acknowledgement of the ping that follows the first GOAWAY. If half
 * of the drain time is shorter, the half applies instead.
 */
const ACKNOWLEDGE_MS = 1000;
/**
 * If a client does not close its connection within this time after the end of the session, the
 * server closes it.
 */
const CLOSE_MS = 1000;
/** The highest stream number. A GOAWAY with this number rejects no call. */
const MAX_STREAM_ID = 2 ** 31 - 1;
/**
 * On shutdown, connections in the kernel's backlog are accepted for this long, but at most for half
 * of the drain time.
 */
const MAX_ACCEPT_MS = 1000;

interface Connection {
  readonly socket: Socket;
  readonly openedMs: number;
  session: ServerHttp2Session | undefined;
  /** Whether the settings of the client have arrived. */
  hasClientSettings: boolean;
  calls: number;
  /** Time at which the last call ended. */
  idleSinceMs: number;
  /** Time at which the pending ping was sent; undefined if no ping is pending. */
  pingedMs?: number | undefined;
  /** Time of the last acknowledgement of a ping. */
  acknowledgedMs?: number;
  /** Number of bytes that the system has accepted for sending. */
  written: number;
  /** Time of the last check at which `written` had increased or nothing was pending. */
  writtenAtMs: number;
  /** Whether the first GOAWAY was sent. */
  isGoawaySent?: boolean;
  /**
   * Time at which a timeout check found that the session has ended but the socket is still open.
   */
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
  #cancelCheck: () => void = () => {};
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
    // Runs before Node's own listener, which creates the HTTP/2 session.
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
    server.on('session', (session: ServerHttp2Session) => this.#onSession(session));
    server.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) =>
      this.#onStream(stream, headers),
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
    this.#scheduleCheck();
    if (source !== undefined)
      return source.open('grpc', (socket) => server.emit('connection', socket));
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#cancelCheck();
        reject(error);
      };
      server.once('error', fail);
      server.listen({ host, port, backlog: 4096 }, () => {
        server.off('error', fail);
        server.on('error', (err) => this.#log.error({ err }, 'accepting a gRPC connection failed'));
        resolve({ host, port: (server.address() as AddressInfo).port });
      });
    });
  }

  #add(socket: Socket): void {
    this.#accepted++;
    const id = idOf(socket);
    const nowMs = monotonicMs();
    const connection: Connection = {
      ...{ socket, openedMs: nowMs, session: undefined, hasClientSettings: false },
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

  #onSession(session: ServerHttp2Session): void {
    const connection = this.#connectionOf(session);
    session.on('error', () => {});
    if (connection === undefined) {
      session.destroy();
      return;
    }
    connection.session = session;
    session.once('remoteSettings', () => {
      connection.hasClientSettings = true;
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

  #onStream(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
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
    else if (method === undefined) rejectCall(stream, STATUS.UNIMPLEMENTED, 'Unknown method');
    else receive(method, stream, headers, connection.socket.remoteAddress ?? '');
  }

  #scheduleCheck(): void {
    this.#cancelCheck = systemClock.schedule(this.#bounds.checkIntervalMs, () => {
      const nowMs = monotonicMs();
      for (const each of this.#connections.values()) this.#checkTimeouts(each, nowMs);
      this.#scheduleCheck();
    });
  }

  #checkTimeouts(connection: Connection, nowMs: number): void {
    const { socket, session, hasClientSettings, calls, openedMs, idleSinceMs } = connection;
    const { prefaceTimeoutMs, idleMs, stallTimeoutMs } = this.#bounds;
    if (session === undefined || !hasClientSettings) {
      if (nowMs - openedMs >= prefaceTimeoutMs) socket.destroy();
      return;
    }
    if (session.destroyed) {
      // Node ends the socket and waits for the client to close it, which may never happen.
      connection.endedMs ??= nowMs;
      if (nowMs - connection.endedMs >= CLOSE_MS) socket.destroy();
      return;
    }
    const { bytesWritten, writableLength } = session.socket;
    const written = bytesWritten - writableLength;
    const hasPending = writableLength > 0;
    if (!hasPending || written !== connection.written) connection.writtenAtMs = nowMs;
    connection.written = written;
    if (nowMs - connection.writtenAtMs >= stallTimeoutMs) socket.destroy();
    else if (calls === 0 && nowMs - idleSinceMs >= idleMs) {
      // After the GOAWAY, the client has `idleMs` to close the connection.
      if (session.closed || nowMs - idleSinceMs >= 2 * idleMs) socket.destroy();
      else this.#announceEnd(connection, idleMs);
    } else if (calls === 0 && !session.closed) this.#ping(connection, nowMs);
  }

  /**
   * Pings the client, and closes the connection if it does not acknowledge in time. After invalid
   * frames, Node stops reading from a connection, so it would not detect that the client has closed
   * the connection.
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
    if (connection.isGoawaySent) return;
    connection.isGoawaySent = true;
    const cancel = systemClock.schedule(Math.min(ACKNOWLEDGE_MS, withinMs / 2), () => end());
    const end = (): void => {
      cancel();
      if (session.closed || session.destroyed) return;
      // Sends the second GOAWAY, and ends the session after its last call.
      session.close();
    };
    session.once('close', cancel);
    session.once('close', () => systemClock.schedule(CLOSE_MS, () => socket.destroy()));
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
      timeoutMs: Math.min(MAX_ACCEPT_MS, drainMs / 2),
      maxTurnMs: Number.POSITIVE_INFINITY,
    });
    if (this.#server.listening) this.#server.close();
    this.#drainMs = drainMs;
    for (const each of this.#connections.values()) {
      if (each.hasClientSettings) this.#announceEnd(each, drainMs);
    }
    const cancelSilent = systemClock.schedule(Math.min(ACKNOWLEDGE_MS, drainMs / 2), () => {
      for (const { hasClientSettings, socket } of this.#connections.values())
        if (!hasClientSettings) socket.destroy();
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
    this.#cancelCheck();
  }
}

function serverOf(
  certificates: Certificates | undefined,
  {
    maxConcurrentStreams,
    maxHeaderListSize,
    maxHeaderFields,
    prefaceTimeoutMs,
  }: typeof GRPC_BOUNDS,
): Http2Server {
  const options = {
    settings: { maxConcurrentStreams, maxHeaderListSize, enablePush: false },
    maxHeaderListPairs: maxHeaderFields,
  };
  if (certificates === undefined) return createServer(options);
  const tls = { ...options, ...certificates.pair, handshakeTimeout: prefaceTimeoutMs };
  const server = createSecureServer(tls);
  certificates.onChange((pair) => server.setSecureContext(pair));
  return server as unknown as Http2Server;
}

function sendStatus(stream: ServerHttp2Stream, status: number): void {
  stream.respond({ ':status': status }, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

/** Returns text that identifies an open connection within this process. */
const idOf = ({
  remoteAddress,
  remotePort,
  localAddress,
  localPort,
}: Pick<Socket, 'remoteAddress' | 'remotePort' | 'localAddress' | 'localPort'>): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
