/** Estimates the service's clock from its responses, because the browser's clock may be wrong. */

interface Offset {
  /** Service clock minus browser clock. */
  readonly aheadMs: number;
  /** Largest possible error of `aheadMs`: half of the round trip. */
  readonly errorMs: number;
}

/** If two offsets differ by more than their errors plus this, one of the clocks was set. */
const SLACK_MS = 50;
/** Because clocks drift, the best sample is replaced after this many samples. */
const MAX_SAMPLES = 60;

export class ServiceClock {
  #best: Offset | undefined = undefined;
  #samples = 0;

  get isKnown(): boolean {
    return this.#best !== undefined;
  }

  /**
   * Adds a sample: a response with the service time `atMs`, whose request was sent at `sentMs` and
   * which was received at `receivedMs`, both by the browser's clock.
   */
  add(atMs: number, sentMs: number, receivedMs: number): void {
    const sample: Offset = {
      aheadMs: atMs - (sentMs + receivedMs) / 2,
      errorMs: Math.max(0, receivedMs - sentMs) / 2,
    };
    const best = this.#best;
    const isBetter =
      best === undefined ||
      sample.errorMs <= best.errorMs ||
      Math.abs(sample.aheadMs - best.aheadMs) > sample.errorMs + best.errorMs + SLACK_MS ||
      ++this.#samples > MAX_SAMPLES;
    if (!isBetter) return;
    this.#best = sample;
    this.#samples = 0;
  }

  /** Returns the service time at browser time `browserMs`. */
  timeAt(browserMs: number): number {
    return browserMs + (this.#best?.aheadMs ?? 0);
  }
}
