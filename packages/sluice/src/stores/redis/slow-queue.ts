/**
 * A queue of operations that take Redis a long time, and of later operations on the same keys,
 * which must not overtake them. One command is sent at a time, or more if many operations wait.
 * Redis executes all commands that a connection has sent before it serves the next connection. So
 * ten slow commands sent at once would delay other clients by the time of all ten.
 */
import { monotonicClock } from '../../clock.ts';

/** For every 32 waiting operations, one more command may be in flight. */
const WAITING_PER_COMMAND = 32;

interface QueuedOperation {
  readonly keys: readonly string[];
  readonly weight: number;
  /** Operations of the same group can share a command. */
  readonly group: string;
}

export class SlowQueue<T extends QueuedOperation> {
  readonly #timeoutMs: number;
  readonly #maxWeight: number;
  readonly #queue: T[] = [];
  /** Number of waiting operations, by key. */
  readonly #keys = new Map<string, number>();
  #inFlight = 0;

  /**
   * A command with several operations weighs at most `maxWeight`. If a command has no reply after
   * `timeoutMs`, the next one is sent.
   */
  constructor(maxWeight: number, timeoutMs: number) {
    this.#maxWeight = maxWeight;
    this.#timeoutMs = timeoutMs;
  }

  /** Whether an operation with one of these keys is waiting. */
  hasKey(keys: readonly string[]): boolean {
    return this.#keys.size > 0 && keys.some((key) => this.#keys.has(key));
  }

  add(operation: T): void {
    this.#queue.push(operation);
    for (const key of operation.keys) this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
  }

  /**
   * Sends as many commands as may be in flight. The promise of `send` must not reject. When a
   * command has ended and operations wait, calls `onRoom`.
   */
  send(send: (operations: readonly T[]) => Promise<void>, onRoom: () => void): void {
    while (this.#queue.length > 0 && this.#inFlight <= this.#queue.length / WAITING_PER_COMMAND) {
      this.#inFlight++;
      let isOver = false;
      const end = (): void => {
        if (isOver) return;
        isOver = true;
        stopTimer();
        this.#inFlight--;
        if (this.#queue.length > 0) onRoom();
      };
      const stopTimer = monotonicClock.schedule(this.#timeoutMs, end);
      send(this.#take()).then(end);
    }
  }

  /** Removes and returns the next operations that fit in one command. */
  #take(): readonly T[] {
    const [{ group }] = this.#queue;
    let count = 0;
    let weight = 0;
    for (const operation of this.#queue) {
      weight += operation.weight;
      if (operation.group !== group || (count > 0 && weight > this.#maxWeight)) break;
      count++;
    }
    const taken = this.#queue.splice(0, count);
    for (const { keys } of taken) for (const key of keys) this.#removeKey(key);
    return taken;
  }

  #removeKey(key: string): void {
    const count = this.#keys.get(key)! - 1;
    if (count === 0) this.#keys.delete(key);
    else this.#keys.set(key, count);
  }
}
