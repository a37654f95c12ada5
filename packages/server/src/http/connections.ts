/**
 * The open connections. On shutdown, each connection ends with a `Connection: close` response. If
 * the server closed it while the client sends a request, the client could not know whether the
 * request was served. Only connections on which the client has sent nothing are closed without a
 * response.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The pending response to the latest request of a connection. */
const LATEST = Symbol('latest');
/** Number of bytes that had been sent to the peer at the last call of `closeStalled`. */
const WRITTEN = Symbol('written');
/** Whether the connection was in its TLS handshake at the last call of `closeStalled`. */
const HANDSHAKING = Symbol('handshaking');

type Connection = Socket & {
  [LATEST]?: ServerResponse | undefined;
  [WRITTEN]?: number;
  [HANDSHAKING]?: boolean;
};

export class Connections {
  readonly #isTls: boolean;
  /**
   * Maps the TCP socket of each connection to the socket on which requests arrive. With TLS, that
   * is the TLS socket, or undefined during the handshake. Without TLS, it is the TCP socket itself.
   */
  readonly #open = new Map<Connection, Connection | undefined>();
  /** TCP sockets in their TLS handshake, by address pair. */
  readonly #handshaking = new Map<string, Connection>();
  #isDraining = false;
  #accepted = 0;
  #onEmpty: () => void = () => {};

  constructor(isTls = false) {
    this.#isTls = isTls;
  }

  /** Number of connections since the start. */
  get accepted(): number {
    return this.#accepted;
  }

  get size(): number {
    return this.#open.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Registers a new TCP connection. */
  add(socket: Connection): void {
    this.#accepted++;
    this.#open.set(socket, this.#isTls ? undefined : socket);
    const addresses = this.#isTls ? addressesOf(socket) : undefined;
    if (addresses !== undefined) this.#handshaking.set(addresses, socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      if (addresses !== undefined && this.#handshaking.get(addresses) === socket) {
        this.#handshaking.delete(addresses);
      }
      if (this.#open.size === 0) this.#onEmpty();
    });
  }

  /** Registers the end of a TLS handshake. */
  onHandshakeEnd(secure: Connection): void {
    const addresses = addressesOf(secure);
    const socket = this.#handshaking.get(addresses);
    if (socket === undefined) return;
    this.#handshaking.delete(addresses);
    this.#open.set(socket, secure);
  }

  /** Calls `then` once, when no connection is open. */
  whenEmpty(then: () => void): void {
    this.#onEmpty = () => {
      this.#onEmpty = () => {};
      then();
    };
    if (this.#open.size === 0) this.#onEmpty();
  }

  /** Registers a new request. */
  onRequest(request: IncomingMessage, response: ServerResponse): void {
    const socket: Connection = request.socket;
    const before = socket[LATEST];
    socket[LATEST] = response;
    if (!this.#isDraining) return;
    // With pipelined requests, only the last response may close the connection.
    if (before !== undefined && !before.headersSent) before.shouldKeepAlive = true;
    response.shouldKeepAlive = false;
  }

  /** Registers that the headers of a response were sent. */
  onHeadersSent(request: IncomingMessage, response: ServerResponse): void {
    const socket: Connection = request.socket;
    if (socket[LATEST] === response) socket[LATEST] = undefined;
  }

  /** From now on, closes each connection with its next response. */
  drain(): void {
    this.#isDraining = true;
    for (const served of this.#open.values()) {
      const response = served?.[LATEST];
      if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
    }
  }

  /**
   * Closes connections whose peer has read none of the pending data since the last call, and
   * connections that were already in their handshake at the last call. Called periodically, which
   * avoids a timer per request.
   */
  closeStalled(): void {
    for (const [socket, served] of this.#open) {
      if (served === undefined) {
        if (socket[HANDSHAKING]) socket.destroy();
        socket[HANDSHAKING] = true;
        continue;
      }
      const written = served.bytesWritten - served.writableLength;
      if (served.writableLength > 0 && served[WRITTEN] === written) served.destroy();
      served[WRITTEN] = written;
    }
  }

  /**
   * Closes connections on which the client has sent nothing yet. Node does not consider them idle.
   */
  closeSilent(): void {
    for (const [socket, served] of this.#open) {
      if (served === undefined || served.bytesRead === 0) socket.destroy();
    }
  }
}

/** Returns text that identifies an open connection within this process. */
const addressesOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
