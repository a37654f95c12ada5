/** Counts by minute, loaded from `/v1/series` while a page shows them, and again every minute. */
import type { Feed } from './feed.ts';
import { Timeline } from './history.ts';
import { PolledQuery } from './polled-query.ts';
import type { SeriesReport } from './types.ts';

const MINUTE_MS = 60_000;

export class MinuteSeries {
  readonly #feed: Feed;
  readonly #query: PolledQuery<Timeline>;
  readonly #stops: readonly (() => void)[];
  /** Number of minutes to load; undefined to load nothing. */
  #minutes: number | undefined = undefined;
  /** The minute since 1970 in which the counts were last requested; 0 to request them again. */
  #requested = 0;
  #isLoading = false;

  constructor(feed: Feed, fetch: (minutes: number) => Promise<SeriesReport>, redraw: () => void) {
    this.#feed = feed;
    this.#query = new PolledQuery(async () => Timeline.of(await fetch(this.#minutes ?? 1)), redraw);
    this.#stops = [
      feed.listen(() => this.#refreshIfOld()),
      // Reload after a change. The feed reports a change after each reconnection too, because the
      // service may have restarted.
      feed.onChanged(() => {
        this.#requested = 0;
      }),
      () => this.#query.cancel(),
    ];
  }

  /** Undefined until the counts are loaded. */
  get value(): Timeline | undefined {
    return this.#query.value;
  }

  get problem(): Error | undefined {
    return this.#query.problem;
  }

  /** Sets the number of minutes, or undefined to load nothing. */
  show(minutes: number | undefined): void {
    if (minutes === this.#minutes) return;
    this.#minutes = minutes;
    this.clear();
  }

  /** Discards the counts and loads them again. */
  clear(): void {
    this.#query.cancel();
    this.#query.value = undefined;
    this.#requested = 0;
    this.#refreshIfOld();
  }

  /** Loads the counts if a minute has ended since the last request, or if that request failed. */
  #refreshIfOld(): void {
    const minute = Math.floor(this.#feed.nowMs / MINUTE_MS);
    const isNew = minute !== this.#requested;
    const isFailed = this.problem !== undefined && !this.#isLoading;
    if (this.#minutes === undefined || !(isNew || isFailed)) return;
    this.#requested = minute;
    this.#isLoading = true;
    void this.#query.refresh().then(() => {
      this.#isLoading = false;
    });
  }

  stop(): void {
    for (const stop of this.#stops) stop();
  }
}
