/** Estimates the service's clock from its responses, since the browser's clock may be wrong. */

/** Service clock minus browser clock, and the bound of its error. */
interface Offset {
  readonly aheadMs: number;
  readonly errorMs: number;
}

/** Offsets that differ by more than their errors and this mean that a clock was set. */
const SLACK_MS = 50;
/** Clocks drift: after this many samples the best one is replaced. */
const MAX_SAMPLES = 60;

export class ServiceClock {
  #best: Offset | undefined = undefined;
  #samples = 0;

  get isKnown(): boolean {
    return this.#best !== undefined;
  }

  /** Adds a response with service time `atMs`, sent and received at browser times. */
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
