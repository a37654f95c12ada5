/**
 * A process with leases: the code of the library, with clocks that run too fast or too slowly, stop
 * and jump. While it is paused, it runs nothing. Its events are handled when it continues.
 */

import type { Clocks } from '../../packages/sluice/src/leases/lease.ts';
import { Leases, type Lend } from '../../packages/sluice/src/leases/leases.ts';
import type { Faults } from './faults.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** The largest difference in speed between a clock and true time. */
export const MAX_DRIFT = 0.005;

export class Process {
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: Faults;
  readonly #rate: number;
  readonly #startMs: number;
  readonly #createLeases: (clocks: Clocks) => Leases;
  /** The time that the monotonic clock has missed, and the sum of the jumps of the system clock. */
  #missedMs = 0;
  #jumpedMs = 0;
  #resumesMs = 0;
  /** The number of times that this process was started. */
  #starts = 0;
  leases: Leases;

  constructor(world: World, random: Random, faults: Faults, lend: Lend, maxLeaseMs: number) {
    this.#world = world;
    this.#random = random;
    this.#faults = faults;
    this.#rate = 1 + random.between(-MAX_DRIFT, MAX_DRIFT);
    this.#startMs = random.between(0, 1e6);
    const newId = (): number => random.integer(1, 2 ** 48 - 1);
    this.#createLeases = (clocks) => new Leases(lend, maxLeaseMs, clocks, newId);
    this.leases = this.#createLeases(this.#clocks());
  }

  get isRunning(): boolean {
    return this.#world.nowMs >= this.#resumesMs;
  }

  /** Returns a function that calls `work` when this process runs, unless it is restarted before. */
  guarded<A extends unknown[]>(work: (...args: A) => void): (...args: A) => void {
    const start = this.#starts;
    const attempt = (...args: A): void => {
      if (start !== this.#starts) return;
      if (this.isRunning) work(...args);
      else this.#world.at(this.#resumesMs, () => attempt(...args));
    };
    return attempt;
  }

  pause(forMs: number): void {
    this.#resumesMs = Math.max(this.#resumesMs, this.#world.nowMs + forMs);
  }

  /** As `pause`, but the monotonic clock stops too, as in a virtual machine that is suspended. */
  suspend(forMs: number): void {
    this.pause(forMs);
    this.#missedMs += forMs;
  }

  setClock(byMs: number): void {
    this.#jumpedMs += byMs;
  }

  /** Starts as a new process. The old one ends at once. */
  crash(): void {
    this.#starts++;
    this.leases = this.#createLeases(this.#clocks());
  }

  /** Returns the units, then starts as a new process. */
  shutDown(): void {
    void this.leases.close();
    this.crash();
  }

  #clocks(): Clocks {
    const elapsedMs = (): number => this.#startMs + this.#world.nowMs * this.#rate;
    return {
      monotonic: {
        now: () => elapsedMs() - this.#missedMs,
        schedule: (delayMs, wake) => this.#schedule(delayMs, wake),
      },
      system: {
        now: () => Math.floor(1.745e12 + elapsedMs() + this.#jumpedMs),
        schedule: (delayMs, wake) => this.#schedule(delayMs, wake),
      },
    };
  }

  #schedule(delayMs: number, wake: () => void): () => void {
    const dueMs = this.#world.nowMs + delayMs / this.#rate;
    const run = this.guarded(() => {
      if (this.#world.nowMs > dueMs + 1) this.#faults.count('late timer');
      wake();
    });
    return this.#world.at(dueMs + this.#random.exponential(0.3), run);
  }
}
