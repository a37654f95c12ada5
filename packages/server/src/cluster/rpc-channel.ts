/**
 * Questions and answers between the supervisor and a worker, over the channel that Node gives a
 * process and its child. Either side may ask. What is not understood is passed over.
 */
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';

/** A process, or a worker as `node:cluster` has it. */
export interface Port {
  send(message: unknown, done: (error: Error | null) => void): unknown;
  on(event: 'message', listener: (message: unknown) => void): unknown;
}

export type RpcHandler = (body: unknown) => unknown;

interface Waiting {
  resolve(body: unknown): void;
  reject(error: Error): void;
  /** Ends the wait for the deadline. */
  cancel(): void;
}

export class RpcChannel {
  readonly #port: Port;
  readonly #handlers = new Map<string, RpcHandler>();
  readonly #waiting = new Map<number, Waiting>();
  #asked = 0;
  #end: Error | undefined = undefined;

  constructor(port: Port) {
    this.#port = port;
    port.on('message', (message) => this.#hear(message));
  }

  /** How a question is answered from now on; what is thrown becomes the asker's error. */
  answer(question: string, handler: RpcHandler): void {
    this.#handlers.set(question, handler);
  }

  ask(question: string, body: unknown, deadlineMs: number): Promise<unknown> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    const id = this.#asked++;
    return new Promise((resolve, reject) => {
      const late = (): void =>
        this.#take(id)?.reject(new Error(`No answer to ${question} in time`));
      const cancel = systemClock.schedule(deadlineMs, late);
      this.#waiting.set(id, { resolve, reject, cancel });
      this.#say({ kind: 'ask', id, question, body }, (error) => this.#take(id)?.reject(error));
    });
  }

  /** Whoever still waits is told why there will be no answer. */
  close(reason: string): void {
    this.#end = new Error(reason);
    for (const id of [...this.#waiting.keys()]) this.#take(id)?.reject(this.#end);
  }

  /** Takes a question out of those that wait. */
  #take(id: unknown): Waiting | undefined {
    const waiting = this.#waiting.get(id as number);
    this.#waiting.delete(id as number);
    waiting?.cancel();
    return waiting;
  }

  #hear(message: unknown): void {
    if (!isRecord(message)) return;
    const { kind, id, question, body } = message;
    if (kind === 'ask') void this.#reply(id, String(question), body);
    else if (kind === 'answer') this.#take(id)?.resolve(body);
    else if (kind === 'error') this.#take(id)?.reject(errorOf(body));
  }

  async #reply(id: unknown, question: string, body: unknown): Promise<void> {
    const nobody = (): void => {};
    try {
      const handler = this.#handlers.get(question);
      if (handler === undefined) throw new Error(`Nobody answers ${question.slice(0, 60)}`);
      this.#say({ kind: 'answer', id, body: await handler(body) }, nobody);
    } catch (error) {
      const { message, code } = error as Error & { code?: unknown };
      this.#say({ kind: 'error', id, body: { message, code } }, nobody);
    }
  }

  #say(message: object, failed: (error: Error) => void): void {
    try {
      this.#port.send(message, (error) => {
        if (error !== null) failed(error);
      });
    } catch (error) {
      failed(error as Error);
    }
  }
}

/** An error of the other process, with the code by which it is told from others. */
function errorOf(body: unknown): Error {
  const { message, code } = isRecord(body) ? body : {};
  return Object.assign(new Error(String(message)), code === undefined ? {} : { code });
}
