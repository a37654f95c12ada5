/**
 * The live feed: sends a tick per second to all listeners (event streams) of this process. A tick
 * has the counts of one second, summed over all processes. While there are listeners, the feed
 * polls all processes once a second. Each second is sent once. If a poll is late, the next poll
 * covers several seconds.
 */
import { type Clock, systemClock } from 'sluice';
import { type DenialBatch, type DenialFilter, filterText } from './denials.ts';
import { MAX_PAUSE_SECONDS, type Span, STEP_MS } from './history.ts';
import type { Logger } from './log.ts';
import { jointBatch, type TickPart, type TickRequest, ticksOf } from './tick-data.ts';
import { version } from './version.ts';

/** Maximum number of event streams per process. */
export const MAX_STREAMS = 32;

/**
 * Maximum number of seconds that one poll covers. Older seconds are not sent. Clients can read them
 * from the history.
 */
const MAX_LATE_SECONDS = 10;

/** Changes within this time are sent as one event. */
const CHANGE_MS = 50;

export type EndReason = 'expired' | 'stopping' | 'slow';
export type ChangedResource = 'policies' | 'overrides';

export interface Listener {
  readonly filter: DenialFilter;
  /** False after the end of the listener's session. */
  readonly isAdmitted: boolean;
  /** Whether the listener has too much unread data. */
  readonly isSlow: boolean;
  /** `data` is JSON. */
  send(event: 'hello' | 'tick' | 'changed', data: string): void;
  end(why: EndReason): void;
}

/** Sent to each process when a listener joins. */
export interface ListenRequest {
  readonly subscriber: string;
  readonly filter: DenialFilter;
}

export interface ListenReply {
  readonly startedAtMs: number;
}

/** Requests to all processes. Processes that do not reply are left out. */
export interface FeedSource {
  listen(request: ListenRequest): Promise<readonly ListenReply[]>;
  tick(request: TickRequest): Promise<readonly TickPart[]>;
}

export class Feed {
  readonly #source: FeedSource;
  readonly #log: Logger;
  readonly #details: object;
  readonly #clock: Clock;
  /** Identifies this process to the denial collectors of all processes. */
  readonly #subscriber = crypto.randomUUID();
  /** Whether each listener has received `hello`. */
  readonly #listeners = new Map<Listener, boolean>();
  readonly #changed = new Set<ChangedResource>();
  #cancelTick: (() => void) | undefined = undefined;
  #cancelChanged: (() => void) | undefined = undefined;
  #isPolling = false;
  #isClosed = false;
  /** The start of the first second that has not been sent. */
  #nextMs = 0;

  /** `details` are further fields of `hello`. */
  constructor(
    source: FeedSource,
    log: Logger,
    clock: Clock = systemClock,
    details: { readonly grafanaUrl?: string | undefined } = {},
  ) {
    this.#details = details;
    this.#source = source;
    this.#log = log;
    this.#clock = clock;
  }

  get hasRoom(): boolean {
    return this.#listeners.size < MAX_STREAMS;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  join(listener: Listener): void {
    if (this.#isClosed) {
      listener.end('stopping');
      return;
    }
    if (this.#listeners.size === 0) this.#nextMs = this.#thisSecond();
    this.#listeners.set(listener, false);
    void this.#sendHello(listener);
    this.#scheduleTick();
  }

  leave(listener: Listener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0) return;
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    this.#cancelChanged?.();
    this.#cancelChanged = undefined;
    this.#changed.clear();
  }

  /**
   * Sends `hello` as soon as all processes collect denials for the listener, so that no later
   * denial is missed.
   */
  async #sendHello(listener: Listener): Promise<void> {
    const request = { subscriber: this.#subscriber, filter: listener.filter };
    const replies = await this.#source.listen(request).catch(() => []);
    if (!this.#listeners.has(listener)) return;
    const atMs = this.#clock.now();
    const startedAtMs = Math.min(atMs, ...replies.map((each) => each.startedAtMs));
    const hello = { version, startedAtMs, atMs, processes: Math.max(replies.length, 1) };
    this.#listeners.set(listener, true);
    listener.send('hello', JSON.stringify({ ...hello, ...this.#details }));
  }

  #thisSecond(): number {
    const nowMs = this.#clock.now();
    return nowMs - (nowMs % STEP_MS);
  }

  #scheduleTick(): void {
    if (this.#cancelTick !== undefined || this.#isPolling || this.#listeners.size === 0) return;
    const delayMs = STEP_MS - (this.#clock.now() % STEP_MS);
    this.#cancelTick = this.#clock.schedule(delayMs, () => {
      this.#cancelTick = undefined;
      void this.#tick();
    });
  }

  async #tick(): Promise<void> {
    this.#isPolling = true;
    try {
      this.#endExpiredOrSlow();
      const span = this.#span();
      if (span.seconds > 0 && this.#listeners.size > 0) await this.#send(span);
    } catch (err) {
      // The next tick includes the seconds of this one.
      if (!this.#isClosed) this.#log.warn({ err }, 'live feed failed');
    } finally {
      this.#isPolling = false;
      this.#scheduleTick();
    }
  }

  #endExpiredOrSlow(): void {
    for (const listener of [...this.#listeners.keys()]) {
      if (!listener.isAdmitted) this.#end(listener, 'expired');
      else if (listener.isSlow) this.#end(listener, 'slow');
    }
  }

  #end(listener: Listener, why: EndReason): void {
    this.leave(listener);
    listener.end(why);
  }

  /** Returns the completed seconds that have not been sent. */
  #span(): Span {
    const endMs = this.#thisSecond();
    // If the clock was set back, repeated seconds are sent again.
    if (this.#nextMs - endMs > MAX_PAUSE_SECONDS * STEP_MS) this.#nextMs = endMs - STEP_MS;
    const startMs = Math.max(this.#nextMs, endMs - MAX_LATE_SECONDS * STEP_MS);
    return { startMs, seconds: Math.max((endMs - startMs) / STEP_MS, 0) };
  }

  async #send(span: Span): Promise<void> {
    const filters = new Map<string, DenialFilter>();
    for (const { filter } of this.#listeners.keys()) filters.set(filterText(filter), filter);
    const request = { ...span, subscriber: this.#subscriber, filters: [...filters.values()] };
    const parts = await this.#source.tick(request);
    if (parts.length === 0) return;
    this.#nextMs = span.startMs + span.seconds * STEP_MS;
    const batches = new Map<string, string>();
    for (const [at, text] of [...filters.keys()].entries()) {
      batches.set(text, denialsText(jointBatch(parts.map(({ denials }) => denials[at]))));
    }
    const ticks = ticksOf(span, parts);
    for (const [at, tick] of ticks.entries()) {
      const isLast = at === ticks.length - 1;
      const text = JSON.stringify(tick).slice(0, -1);
      for (const [listener, hasHello] of this.#listeners) {
        const denials = isLast ? batches.get(filterText(listener.filter)) : undefined;
        if (hasHello) listener.send('tick', `${text},${denials ?? NO_DENIALS}}`);
      }
    }
  }

  /** Sends a `changed` event to all listeners. */
  changed(...resources: readonly ChangedResource[]): void {
    if (this.#listeners.size === 0) return;
    for (const each of resources) this.#changed.add(each);
    this.#cancelChanged ??= this.#clock.schedule(CHANGE_MS, () => {
      this.#cancelChanged = undefined;
      const texts = [...this.#changed].map((what) => JSON.stringify({ what }));
      this.#changed.clear();
      for (const listener of this.#listeners.keys()) {
        for (const text of texts) listener.send('changed', text);
      }
    });
  }

  /** Ends all listeners, and every listener that joins afterwards. */
  close(): void {
    this.#isClosed = true;
    for (const listener of [...this.#listeners.keys()]) this.#end(listener, 'stopping');
  }
}

const denialsText = ({ denials, omitted }: DenialBatch): string =>
  `"denials":${JSON.stringify(denials)},"denialsOmitted":${omitted}`;

const NO_DENIALS = denialsText({ denials: [], omitted: 0 });
