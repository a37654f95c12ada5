/**
 * Records that expire, in bounded memory and constant time.
 *
 * Records of like lifetime, rounded up to a power of two, form a class of two generations. When
 * the current generation is as old as that, it becomes the previous one, and what was the previous
 * one is dropped whole. So a record is kept for one to two lifetimes, nothing is ever searched, and
 * a long-lived record keeps no short-lived one in memory. If the bytes run out, generations are
 * dropped early: those of the class with the most bytes.
 */

interface Class<T> {
  readonly lifetimeMs: number;
  startMs: number;
  current: Map<number, T>;
  currentBytes: number;
  previous: Map<number, T>;
  previousBytes: number;
}

export class ExpiringRecords<T> {
  /** Records from before may have been dropped although their lifetime was not over. */
  droppedMs = 0;
  readonly #classes: Class<T>[] = [];
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns a record; it may be as old as twice its lifetime. */
  get(name: number): T | undefined {
    for (const { current, previous } of this.#classes) {
      const value = current.get(name) ?? previous.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: number, value: T, bytes: number, lifetimeMs: number, nowMs: number): void {
    const own = this.#classOf(2 ** Math.ceil(Math.log2(lifetimeMs)), nowMs);
    own.current.set(name, value);
    own.currentBytes += bytes;
    let sum = 0;
    let largest = own;
    for (const each of this.#classes) {
      const ageMs = nowMs - each.startMs;
      if (ageMs >= each.lifetimeMs) turn(each, nowMs);
      // A quarter each, so that the newest records stay when a generation is dropped.
      else if (each.currentBytes * 4 > this.#maxBytes || -ageMs >= each.lifetimeMs) {
        this.#drop(each, nowMs);
      }
      sum += bytesOf(each);
      if (bytesOf(each) > bytesOf(largest)) largest = each;
    }
    if (sum > this.#maxBytes) this.#drop(largest, nowMs);
  }

  #classOf(lifetimeMs: number, startMs: number): Class<T> {
    const known = this.#classes.find((each) => each.lifetimeMs === lifetimeMs);
    if (known !== undefined) return known;
    const [current, previous] = [new Map(), new Map()];
    const added = { lifetimeMs, startMs, current, previous, currentBytes: 0, previousBytes: 0 };
    this.#classes.push(added);
    return added;
  }

  #drop(each: Class<T>, nowMs: number): void {
    this.droppedMs = Math.max(this.droppedMs, each.startMs);
    turn(each, nowMs);
  }
}

const bytesOf = <T>({ currentBytes, previousBytes }: Class<T>): number =>
  currentBytes + previousBytes;

function turn<T>(each: Class<T>, nowMs: number): void {
  each.previous = each.current;
  each.previousBytes = each.currentBytes;
  each.current = new Map();
  each.currentBytes = 0;
  each.startMs = nowMs;
}
