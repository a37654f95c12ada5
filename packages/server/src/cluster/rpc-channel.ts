/**
 * Remote calls between the supervisor and a child process, over Node's IPC channel. Both sides use
 * this class and can call each other. If the other side hangs, a call is rejected after a timeout.
 * If the other side exits, all pending calls are rejected. Messages that are not calls or replies
 * are ignored.
 */
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';

/** The methods that `process` (in a child) and `ChildProcess` (in the supervisor) share. */
export interface Port {
  send(message: unknown, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

export type RpcHandler = (body: unknown) => unknown;

interface PendingCall {
  resolve(body: unknown): void;
  reject(error: Error): void;
  cancelTimeout(): void;
}

const ignore = (): void => {};

export class RpcChannel {
  readonly #port: Port;
  readonly #handlers = new Map<string, RpcHandler>();
  readonly #pending = new Map<number, PendingCall>();
  /** Id of the next call. */
  #nextId = 0;
  #closed: Error | undefined = undefined;

  constructor(port: Port) {
    this.#port = port;
    port.on('message', (message) => this.#receive(message));
  }

  /** Sets the handler for calls of the other side. Errors of the handler are sent to the caller. */
  handle(name: string, handler: RpcHandler): void {
    this.#handlers.set(name, handler);
  }

  /** Resolves to the result of the other side's handler; rejects with its error. */
  call(name: string, body: unknown, timeoutMs: number): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const onTimeout = (): void =>
        this.#take(id)?.reject(new Error(`No reply to ${name} within ${timeoutMs} ms`));
      const cancelTimeout = systemClock.schedule(timeoutMs, onTimeout);
      this.#pending.set(id, { resolve, reject, cancelTimeout });
      this.#send({ kind: 'call', id, name, body }, (error) => this.#take(id)?.reject(error));
    });
  }

  /** Rejects all pending and further calls. */
  close(reason: string): void {
    this.#closed = new Error(reason);
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(this.#closed);
  }

  /** Removes and returns a pending call. */
  #take(id: unknown): PendingCall | undefined {
    const pending = this.#pending.get(id as number);
    this.#pending.delete(id as number);
    pending?.cancelTimeout();
    return pending;
  }

  #receive(message: unknown): void {
    if (!isRecord(message)) return;
    const { kind, id, name, body } = message;
    if (kind === 'call') void this.#reply(id, String(name), body);
    else if (kind === 'result') this.#take(id)?.resolve(body);
    else if (kind === 'error') this.#take(id)?.reject(rebuildError(body));
  }

  async #reply(id: unknown, name: string, body: unknown): Promise<void> {
    try {
      const handler = this.#handlers.get(name);
      if (handler === undefined) throw new Error(`No handler for ${name.slice(0, 60)}`);
      this.#send({ kind: 'result', id, body: await handler(body) }, ignore);
    } catch (error) {
      const { message, code } = error as Error & { code?: unknown };
      this.#send({ kind: 'error', id, body: { message, code } }, ignore);
    }
  }

  #send(message: object, onError: (error: Error) => void): void {
    try {
      this.#port.send(message, (error) => {
        if (error !== null) onError(error);
      });
    } catch (error) {
      onError(error as Error);
    }
  }
}

/** Returns an error with the message and the code that the other process sent. */
function rebuildError(body: unknown): Error {
  const { message, code } = isRecord(body) ? body : {};
  return Object.assign(new Error(String(message)), code === undefined ? {} : { code });
}
