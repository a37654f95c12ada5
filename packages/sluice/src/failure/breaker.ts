/**
 * A circuit breaker: stops asking a store that fails, and finds out by probes when it is back.
 *
 * It opens after 5 failures in a row, or when half of the last 20 calls failed. One call is let
 * through after 250 ms; if that fails too, the next one after twice the time, up to 5 s. The pauses
 * are shortened by up to a quarter at random, so that many processes do not probe together.
 */
import type { Clock } from '../clock.ts';

const FAILURES_IN_A_ROW = 5;
const SAMPLE = 20;
const SAMPLE_BITS = 2 ** SAMPLE - 1;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5000;

export type BreakerState = 'closed' | 'open' | 'probing';

export class Breaker {
  readonly #clock: Clock;
  readonly #random: () => number;
  #state: BreakerState = 'closed';
  #inARow = 0;
  /** The last outcomes, one bit each: set is failed. */
  #recent = 0;
  #seen = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #probeAtMs = 0;

  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#random = random;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** How long until the next probe, in ms, at least 1. */
  get waitMs(): number {
    return Math.max(this.#leftMs(), 1);
  }

  /** Whether to ask the store. When open, one call in a while is the probe. */
  admits(): 'call' | 'probe' | undefined {
    if (this.#state === 'closed') return 'call';
    if (this.#state === 'probing' || this.#leftMs() > 0) return undefined;
    this.#state = 'probing';
    return 'probe';
  }

  succeeded(kind: 'call' | 'probe'): void {
    if (kind === 'probe') {
      this.#state = 'closed';
      this.#pauseMs = FIRST_PAUSE_MS;
      this.#recent = 0;
      this.#seen = 0;
    }
    this.#inARow = 0;
    this.#count(0);
  }

  failed(kind: 'call' | 'probe'): void {
    if (kind === 'probe') {
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
      this.#open();
      return;
    }
    this.#inARow++;
    this.#count(1);
    if (this.#state === 'closed' && (this.#inARow >= FAILURES_IN_A_ROW || this.#isHalf())) {
      this.#open();
    }
  }

  /** The answer was not the store's, so nothing was learnt: another call is the probe. */
  passedOver(kind: 'call' | 'probe'): void {
    if (kind === 'probe') this.#state = 'open';
  }

  /** More than the whole pause is left only if the clock was set back; then it is over. */
  #leftMs(): number {
    const leftMs = this.#probeAtMs - this.#clock.now();
    return leftMs > this.#pauseMs ? 0 : leftMs;
  }

  #count(failed: 0 | 1): void {
    this.#recent = ((this.#recent << 1) | failed) & SAMPLE_BITS;
    this.#seen = Math.min(this.#seen + 1, SAMPLE);
  }

  #isHalf(): boolean {
    if (this.#seen < SAMPLE) return false;
    let failures = 0;
    for (let bits = this.#recent; bits !== 0; bits &= bits - 1) failures++;
    return failures * 2 >= SAMPLE;
  }

  #open(): void {
    this.#state = 'open';
    this.#inARow = 0;
    this.#probeAtMs = this.#clock.now() + Math.ceil(this.#pauseMs * (1 - this.#random() / 4));
  }
}
