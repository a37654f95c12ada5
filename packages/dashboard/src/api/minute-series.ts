/** Counts by minute, loaded from `/v1/series` while a page shows them, and again every minute. */
import type { Feed } from './feed.ts';
import { Timeline } from './history.ts';
import { PolledQuery } from './polled-query.ts';
import type { SeriesReport } from './types.ts';

const MINUTE_MS = 60_000;

export class MinuteSeries {
  readonly #feed: Feed;
  readonly #query: PolledQuery<Timeline>;
  readonly #stopListening: () => void;
  /** Undefined if the page shows no minutes. */
  #minutes: number | undefined = undefined;
  /** The minute in which the counts were last requested. */
  #requested = 0;

  constructor(feed: Feed, fetch: (minutes: number) => Promise<SeriesReport>, redraw: () => void) {
    this.#feed = feed;
    this.#query = new PolledQuery(async () => Timeline.of(await fetch(this.#minutes ?? 1)), redraw);
    this.#stopListening = feed.listen(() => this.#refreshIfOld());
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

  #refreshIfOld(): void {
    const minute = Math.floor(this.#feed.nowMs / MINUTE_MS);
    if (this.#minutes === undefined || minute === this.#requested) return;
    this.#requested = minute;
    void this.#query.refresh();
  }

  stop(): void {
    this.#stopListening();
    this.#query.cancel();
  }
}
