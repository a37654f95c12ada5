/**
 * Operations that take Redis long, and those that must not overtake them. They are sent one command
 * at a time, and more only if many wait: Redis does everything that one connection has sent before
 * it turns to the next connection, so ten slow commands sent at once would make other clients wait
 * for all ten of them.
 */
import { monotonicClock } from '../../clock.ts';

/** For so many operations that wait, one more command is sent: Redis may be far away. */
const WAITING_PER_COMMAND = 32;

interface Queued {
  readonly keys: readonly string[];
  readonly weight: number;
  /** Operations with the same group can travel in one command. */
  readonly group: string;
}

export class SlowLane<T extends Queued> {
  readonly #longestMs: number;
  readonly #mostWeight: number;
  readonly #queue: T[] = [];
  /** How many operations that wait concern a key. */
  readonly #keys = new Map<string, number>();
  #inFlight = 0;

  /**
   * A command weighs at most `mostWeight`, unless it is one operation. If it has no reply after
   * `longestMs`, it is not waited for any longer.
   */
  constructor(mostWeight: number, longestMs: number) {
    this.#mostWeight = mostWeight;
    this.#longestMs = longestMs;
  }

  /** Whether an operation that concerns one of these keys waits. */
  holds(keys: readonly string[]): boolean {
    return this.#keys.size > 0 && keys.some((key) => this.#keys.has(key));
  }

  add(operation: T): void {
    this.#queue.push(operation);
    for (const key of operation.keys) this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
  }

  /**
   * Sends as many commands as may be on their way. The promise of `send` must not reject. Calls
   * `onRoom` when a reply lets others be sent.
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
      const stopTimer = monotonicClock.schedule(this.#longestMs, end);
      send(this.#take()).then(end);
    }
  }

  /** The next operations that fit in one command. */
  #take(): readonly T[] {
    const [{ group }] = this.#queue;
    let count = 0;
    let weight = 0;
    for (const operation of this.#queue) {
      weight += operation.weight;
      if (operation.group !== group || (count > 0 && weight > this.#mostWeight)) break;
      count++;
    }
    const taken = this.#queue.splice(0, count);
    for (const { keys } of taken) for (const key of keys) this.#release(key);
    return taken;
  }

  #release(key: string): void {
    const count = this.#keys.get(key)! - 1;
    if (count === 0) this.#keys.delete(key);
    else this.#keys.set(key, count);
  }
}
