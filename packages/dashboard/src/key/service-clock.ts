/** What time it is at the service: this browser's clock may be wrong, or be set meanwhile. */

/** What one answer told: how far the service is ahead, and by how much that may be wrong. */
interface Offset {
  readonly aheadMs: number;
  readonly errorMs: number;
}

/** Offsets that are further apart than they can be wrong are those of a clock that was set. */
const SLACK_MS = 50;
/** Clocks drift, so that after so many answers any is better than the best of them. */
const MAX_ANSWERS = 60;

export class ServiceClock {
  #best: Offset | undefined = undefined;
  #answers = 0;

  get isKnown(): boolean {
    return this.#best !== undefined;
  }

  /** An answer of the time `atMs` there, asked for and received at times of this browser. */
  heard(atMs: number, askedMs: number, receivedMs: number): void {
    const heard: Offset = {
      aheadMs: atMs - (askedMs + receivedMs) / 2,
      errorMs: Math.max(0, receivedMs - askedMs) / 2,
    };
    const best = this.#best;
    const isBetter =
      best === undefined ||
      heard.errorMs <= best.errorMs ||
      Math.abs(heard.aheadMs - best.aheadMs) > heard.errorMs + best.errorMs + SLACK_MS ||
      ++this.#answers > MAX_ANSWERS;
    if (!isBetter) return;
    this.#best = heard;
    this.#answers = 0;
  }

  /** The time there when it is `browserMs` here. */
  timeAt(browserMs: number): number {
    return browserMs + (this.#best?.aheadMs ?? 0);
  }
}
