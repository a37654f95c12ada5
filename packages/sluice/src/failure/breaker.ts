/**
 * Circuit breaker of one failure domain. Opens after 5 failed commands in a row, or when half of
 * the last 20 failed. While it is open, it admits single calls as probes: after 250 ms, then at
 * doubling intervals up to 1 s, and at once when the client has connected. Intervals are shortened
 * by up to a quarter at random, so that many processes do not probe together.
 *
 * The breaker detects a recovery at most 1 s late. During an outage, one command per second is sent
 * to the server, and one caller per second waits for the deadline.
 */
import type { Clock } from '../clock.ts';

const FAILURES_IN_A_ROW = 5;
const SAMPLE = 20;
const SAMPLE_BITS = 2 ** SAMPLE - 1;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 1000;
/** If the breaker gets no call for this time after a probe is due, it reports `closed`. */
const IDLE_MS = 30_000;

export type BreakerState = 'closed' | 'open' | 'probing';

export class Breaker {
  readonly #clock: Clock;
  readonly #random: () => number;
  #state: BreakerState = 'closed';
  #inARow = 0;
  /** The last outcomes, one bit each. A set bit is a failure. */
  #recent = 0;
  #seen = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #probeAtMs = 0;
  /**
   * Whether the client has connected since the probe was sent. If the probe fails, the next probe
   * then follows at once, because the failed probe may have used the old connection.
   */
  #isReady = false;

  /** `clock` must be monotonic. */
  constructor(clock: Clock, random: () => number = Math.random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Returns `closed` for an open breaker that has had no calls for a long time, see `IDLE_MS`. */
  get state(): BreakerState {
    return this.#state === 'open' && this.#leftMs() <= -IDLE_MS ? 'closed' : this.#state;
  }

  /** The time until the next probe, in ms, at least 1. */
  get waitMs(): number {
    return Math.max(Math.ceil(this.#leftMs()), 1);
  }

  /**
   * Returns how to send a call, or undefined if it must not be sent. While the breaker is open, one
   * call per pause is sent as the probe.
   */
  admits(): 'call' | 'probe' | undefined {
    if (this.#state === 'closed') return 'call';
    if (this.#state === 'probing' || this.#leftMs() > 0) return undefined;
    this.#state = 'probing';
    this.#isReady = false;
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
      this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_PAUSE_MS);
      this.#open();
      if (this.#isReady) this.#probeAtMs = this.#clock.now();
      return;
    }
    this.#inARow++;
    this.#count(1);
    if (this.#state === 'closed' && (this.#inARow >= FAILURES_IN_A_ROW || this.#isHalfFailed())) {
      this.#open();
    }
  }

  /**
   * Call this when the end of a call shows nothing about the store. If the call was the probe, the
   * next call becomes the probe.
   */
  inconclusive(kind: 'call' | 'probe'): void {
    if (kind === 'probe') this.#state = 'open';
  }

  /** Call this when the client has connected. An open breaker then probes with the next call. */
  ready(): void {
    this.#isReady = true;
    if (this.#state === 'open') this.#probeAtMs = Math.min(this.#probeAtMs, this.#clock.now());
  }

  #leftMs(): number {
    return this.#probeAtMs - this.#clock.now();
  }

  #count(failed: 0 | 1): void {
    this.#recent = ((this.#recent << 1) | failed) & SAMPLE_BITS;
    this.#seen = Math.min(this.#seen + 1, SAMPLE);
  }

  #isHalfFailed(): boolean {
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
