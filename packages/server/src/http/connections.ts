/**
 * The connections that are open, and how they end when the service stops: with an answer that says
 * so. Whoever sends a request to a connection that is just being closed never learns whether it was
 * served; so none is closed before its other end has been told, unless it stays silent.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The answer to the latest request of a connection, if it is still to be made. */
const LATEST = Symbol('latest');
/** How much had been written when it was last looked whether the other end reads. */
const WRITTEN = Symbol('written');
/** The connection was in its TLS handshake when it was last looked at. */
const HANDSHAKING = Symbol('handshaking');

type Connection = Socket & {
  [LATEST]?: ServerResponse | undefined;
  [WRITTEN]?: number;
  [HANDSHAKING]?: boolean;
};

export class Connections {
  readonly #isTls: boolean;
  /**
   * By the TCP socket, the socket that requests come from. Over TLS that is another one, and
   * undefined until the handshake is done: what is read and written shows there only.
   */
  readonly #open = new Map<Connection, Connection | undefined>();
  /** TCP sockets in their handshake, by their addresses. */
  readonly #handshaking = new Map<string, Connection>();
  #isDraining = false;
  #accepted = 0;
  #emptied: () => void = () => {};

  constructor(isTls = false) {
    this.#isTls = isTls;
  }

  /** How many there have been. */
  get accepted(): number {
    return this.#accepted;
  }

  get size(): number {
    return this.#open.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** A TCP connection has come. */
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
      if (this.#open.size === 0) this.#emptied();
    });
  }

  /** Its TLS handshake is done. */
  secured(secure: Connection): void {
    const addresses = addressesOf(secure);
    const socket = this.#handshaking.get(addresses);
    if (socket === undefined) return;
    this.#handshaking.delete(addresses);
    this.#open.set(socket, secure);
  }

  /** Calls back once, when none is open. */
  whenEmpty(then: () => void): void {
    this.#emptied = () => {
      this.#emptied = () => {};
      then();
    };
    if (this.#open.size === 0) this.#emptied();
  }

  /** A request has come. */
  began(request: IncomingMessage, response: ServerResponse): void {
    const socket: Connection = request.socket;
    const before = socket[LATEST];
    socket[LATEST] = response;
    if (!this.#isDraining) return;
    // Only the last of several answers may say that the connection ends.
    if (before !== undefined && !before.headersSent) before.shouldKeepAlive = true;
    response.shouldKeepAlive = false;
  }

  /** It has been answered, so that nothing can be changed about the answer any more. */
  ended(request: IncomingMessage, response: ServerResponse): void {
    const socket: Connection = request.socket;
    if (socket[LATEST] === response) socket[LATEST] = undefined;
  }

  /** From now on each connection ends with its next answer. */
  drain(): void {
    this.#isDraining = true;
    for (const served of this.#open.values()) {
      const response = served?.[LATEST];
      if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
    }
  }

  /**
   * Closes those whose other end has read nothing of what waits for it since it was last looked,
   * and those that have been in their handshake since then. A timer for each would do the same, at
   * a price for each request.
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

  /** Closes those on which no request has ever begun; to Node they are not idle. */
  closeSilent(): void {
    for (const [socket, served] of this.#open) {
      if (served === undefined || served.bytesRead === 0) socket.destroy();
    }
  }
}

/** What tells a connection from all others of this process. */
const addressesOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
