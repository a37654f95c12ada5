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

type Connection = Socket & { [LATEST]?: ServerResponse | undefined; [WRITTEN]?: number };

export class Connections {
  readonly #open = new Set<Connection>();
  #isDraining = false;
  #accepted = 0;
  #emptied: () => void = () => {};

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

  add(socket: Connection): void {
    this.#accepted++;
    this.#open.add(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      if (this.#open.size === 0) this.#emptied();
    });
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
    for (const { [LATEST]: response } of this.#open) {
      if (response !== undefined && !response.headersSent) response.shouldKeepAlive = false;
    }
  }

  /**
   * Closes those whose other end has read nothing of what waits for it since it was last looked. A
   * timer for each would do the same, at a price for each request.
   */
  closeStalled(): void {
    for (const socket of this.#open) {
      const written = socket.bytesWritten - socket.writableLength;
      if (socket.writableLength > 0 && socket[WRITTEN] === written) socket.destroy();
      socket[WRITTEN] = written;
    }
  }

  /** Closes those on which nothing has ever come; to Node they are not idle. */
  closeSilent(): void {
    for (const socket of this.#open) if (socket.bytesRead === 0) socket.destroy();
  }
}
