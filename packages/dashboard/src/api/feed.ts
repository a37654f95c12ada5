/**
 * The event stream of the service: one tick a second. Reconnects when the stream ends, then loads
 * the missed seconds from `/v1/series`.
 */
import { after, nowMs } from '../clock.ts';
import type { Api, ApiError } from './client.ts';
import { HISTORY_SECONDS, History } from './history.ts';
import type { Changed, Denial, End, Hello, Tick } from './types.ts';

/** `lost`: disconnected, reconnecting. */
export type FeedState = 'connecting' | 'live' | 'lost';

export interface DenialFilter {
  readonly policy?: string | undefined;
  /** May contain `*`. */
  readonly key?: string | undefined;
}

/** Without an event for this long the stream counts as lost. */
const SILENCE_TIMEOUT_MS = 4000;
const RETRY_MS = 2000;
/** After the session expired, the retry only shows the sign-in form. */
const EXPIRED_RETRY_MS = 100;
const MAX_DENIALS = 500;
/** A stream that starts within this time of the last tick has missed no second. */
const FRESH_MS = 2500;
const MAX_PENDING = 30;

export class Feed {
  readonly history = new History();
  state: FeedState = 'connecting';
  /** When the stream was lost, by the browser's clock. */
  lostAtMs: number | undefined = undefined;
  /** The error response to the stream request, if the service sent one. */
  problem: string | undefined = undefined;
  hello: Hello | undefined = undefined;
  last: Tick | undefined = undefined;
  /** Newest first. */
  denials: readonly Denial[] = [];
  /** When the filter was set and collection began. */
  denialsSinceMs = nowMs();
  /** Denials received since then, including those no longer kept. */
  denialsReceived = 0;
  /** Denials the service did not send, because there were too many in a second. */
  denialsOmitted = 0;
  readonly #api: Api;
  readonly #listeners = new Set<() => void>();
  readonly #changeListeners = new Set<(change: Changed) => void>();
  #filter: DenialFilter = {};
  #source: EventSource | undefined = undefined;
  /** Ticks that arrive while the series is loading. */
  #pending: Tick[] | undefined = undefined;
  #hasHello = false;
  /** Incremented by `close`, so that a pending retry can tell that it is obsolete. */
  #generation = 0;
  /** Service clock minus browser clock. */
  #offsetMs = 0;
  #cancelSilence: () => void = () => {};
  #cancelRetry: () => void = () => {};

  constructor(api: Api) {
    this.#api = api;
  }

  /** The current time by the service's clock. */
  get nowMs(): number {
    return nowMs() + this.#offsetMs;
  }

  /** Calls `listener` on every tick and state change. Returns the function that unsubscribes. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls `listener` when policies or overrides have changed. */
  onChanged(listener: (change: Changed) => void): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /** Receives only matching denials from now on. Returns whether the filter changed. */
  filter({ policy, key }: DenialFilter): boolean {
    if (policy === this.#filter.policy && key === this.#filter.key) return false;
    this.#filter = { policy, key };
    this.denials = [];
    this.denialsSinceMs = nowMs();
    this.denialsReceived = 0;
    this.denialsOmitted = 0;
    if (this.#source !== undefined) this.open();
    return true;
  }

  get #url(): string {
    const { policy, key } = this.#filter;
    const query = new URLSearchParams({ ...(policy && { policy }), ...(key && { key }) });
    return `/v1/events${query.size === 0 ? '' : `?${query}`}`;
  }

  /** Clears the error state and opens the stream. */
  start(): void {
    this.state = 'connecting';
    this.lostAtMs = undefined;
    this.problem = undefined;
    this.open();
  }

  open(): void {
    this.close();
    const source = new EventSource(this.#url);
    this.#source = source;
    this.#hasHello = false;
    const on = <T>(name: string, take: (data: T) => void): void =>
      source.addEventListener(name, ({ data }) => take(JSON.parse(data)));
    on<Hello>('hello', (hello) => this.#onHello(hello));
    on<Tick>('tick', (tick) => this.#onTick(tick));
    on<Changed>('changed', (change) => this.#notifyChanged(change));
    on<End>('end', ({ why }) => this.#onLost(why === 'expired' ? EXPIRED_RETRY_MS : RETRY_MS));
    source.addEventListener('error', () => this.#onLost());
    this.#restartSilenceTimer();
  }

  close(): void {
    this.#generation++;
    this.#cancelRetry();
    this.#cancelSilence();
    this.#source?.close();
    this.#source = undefined;
  }

  #onHello(hello: Hello): void {
    const isSame = hello.startedAtMs === this.hello?.startedAtMs;
    const isFresh = Math.abs(hello.atMs - this.history.lastMs) < FRESH_MS;
    const wasLost = this.state === 'lost';
    this.hello = hello;
    this.#hasHello = true;
    this.#offsetMs = hello.atMs - nowMs();
    this.#restartSilenceTimer();
    if (!isSame || !isFresh) this.#fillIn();
    // Change events sent while disconnected are lost: assume that everything has changed.
    if (wasLost) {
      for (const what of ['policies', 'overrides'] as const) this.#notifyChanged({ what });
    }
  }

  #notifyChanged(change: Changed): void {
    for (const listener of this.#changeListeners) listener(change);
  }

  /** Replaces the history by the service's series; ticks received meanwhile are added after it. */
  #fillIn(): void {
    const pending: Tick[] = [];
    this.#pending = pending;
    const isLatest = (): boolean => this.#pending === pending;
    void this.#api.series(HISTORY_SECONDS).then(
      (report) => {
        if (!isLatest()) return;
        this.#pending = undefined;
        this.history.fill(report);
        for (const tick of pending) this.history.add(tick);
        this.#notify();
      },
      () => {
        if (isLatest()) this.#pending = undefined;
      },
    );
  }

  #onTick(tick: Tick): void {
    this.state = 'live';
    this.lostAtMs = undefined;
    this.problem = undefined;
    this.last = tick;
    const isFirst = this.history.lastMs === 0;
    const missed = this.history.add(tick);
    if (this.#pending !== undefined) {
      this.#pending.push(tick);
      if (this.#pending.length > MAX_PENDING) this.#pending.shift();
    } else if (missed > 0 || isFirst) this.#fillIn();
    this.denials = [...[...tick.denials].reverse(), ...this.denials].slice(0, MAX_DENIALS);
    this.denialsReceived += tick.denials.length;
    this.denialsOmitted += tick.denialsOmitted;
    this.#restartSilenceTimer();
    this.#notify();
  }

  #restartSilenceTimer(): void {
    this.#cancelSilence();
    this.#cancelSilence = after(SILENCE_TIMEOUT_MS, () => this.#onLost());
  }

  #onLost(retryMs = RETRY_MS): void {
    this.close();
    this.state = 'lost';
    this.lostAtMs ??= nowMs();
    this.#notify();
    this.#cancelRetry = after(retryMs, () => void this.#retry());
  }

  /** Also detects an expired session, which EventSource does not report. */
  async #retry(): Promise<void> {
    const generation = this.#generation;
    const cause = await this.#diagnose().catch(() => 'unreachable' as const);
    if (generation !== this.#generation) return;
    this.problem = cause instanceof Error ? cause.message : undefined;
    // The policy that the filter names may have been deleted.
    if (cause instanceof Error) this.#notifyChanged({ what: 'policies' });
    if (cause === 'signed out') this.#api.onSignedOut();
    else if (cause === 'unreachable') this.#onLost();
    else this.open();
  }

  /** Resolves to why the stream failed, or to undefined if it can be opened again. */
  async #diagnose(): Promise<'signed out' | ApiError | undefined> {
    const { signedIn } = await this.#api.session();
    if (!signedIn) return 'signed out';
    return this.#hasHello ? undefined : this.#api.streamError(this.#url);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
