/**
 * Receives the event stream `/v1/events`: one `tick` event per second with the counts of that
 * second. Reconnects when the stream ends, and loads missed seconds from `/v1/series`.
 */
import { after, nowMs } from '../clock.ts';
import type { Api, ApiError } from './client.ts';
import { DenialGroups } from './denial-groups.ts';
import { HISTORY_SECONDS, History } from './history.ts';
import type { ChangedEvent, EndEvent, HelloEvent, Tick } from './types.ts';

/**
 * `connecting`: no tick has arrived yet. `live`: ticks arrive. `lost`: the stream failed, and the
 * feed tries to reconnect.
 */
export type FeedState = 'connecting' | 'live' | 'lost';

export interface DenialFilter {
  readonly policy?: string | undefined;
  /** A key, or a pattern with `*`. */
  readonly key?: string | undefined;
}

/** If no event arrives for this long, the feed reconnects. */
const SILENCE_TIMEOUT_MS = 4000;
const RETRY_MS = 2000;
const TICK_MS = 1000;
/**
 * Delay of the retry after the session has expired. Short, because that retry shows the sign-in
 * form instead of reconnecting.
 */
const EXPIRED_RETRY_MS = 100;
/** If a new stream starts within this time after the last tick, the feed has missed no tick. */
const MAX_GAP_MS = 2500;
/** Maximum number of ticks to keep while `/v1/series` is loading. */
const MAX_PENDING_TICKS = 30;

export class Feed {
  readonly history = new History();
  state: FeedState = 'connecting';
  /** When the stream was lost, in ms by the service's clock. */
  lostAtMs: number | undefined = undefined;
  /** Message of the service's error response to the last stream request; undefined without one. */
  problem: string | undefined = undefined;
  hello: HelloEvent | undefined = undefined;
  last: Tick | undefined = undefined;
  /** Denials that match the filter, since `denialsSinceMs`. */
  denials = new DenialGroups();
  /**
   * When the first stream with the current filter started, in ms by the service's clock; undefined
   * until then.
   */
  denialsSinceMs: number | undefined = undefined;
  /** Number of denials since `denialsSinceMs` that the service counted but did not list. */
  denialsOmitted = 0;
  readonly #api: Api;
  readonly #listeners = new Set<() => void>();
  readonly #changeListeners = new Set<(change: ChangedEvent) => void>();
  #filter: DenialFilter = {};
  #source: EventSource | undefined = undefined;
  /** Ticks that arrived while `/v1/series` is loading; undefined if it is not loading. */
  #pending: Tick[] | undefined = undefined;
  /** Whether the current stream has sent its first event, `hello`. */
  #hasHello = false;
  /** Incremented by `close`, so that a pending retry can detect that it is obsolete. */
  #generation = 0;
  /** Service clock minus browser clock, in ms. */
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

  /** End of the newest second with data, in ms; undefined before the first tick. */
  get dataMs(): number | undefined {
    return this.last && this.last.atMs + TICK_MS;
  }

  /** Calls `listener` on every tick and state change. Returns a function that unsubscribes. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls `listener` when policies or overrides change. Returns a function that unsubscribes. */
  onChanged(listener: (change: ChangedEvent) => void): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /**
   * Sets the filter of denials and reopens the stream with it. Returns false, and changes nothing,
   * if the filter is already set.
   */
  filter({ policy, key }: DenialFilter): boolean {
    if (policy === this.#filter.policy && key === this.#filter.key) return false;
    this.#filter = { policy, key };
    this.denials = new DenialGroups();
    this.denialsSinceMs = undefined;
    this.denialsOmitted = 0;
    if (this.#source !== undefined) this.open();
    return true;
  }

  get #url(): string {
    const { policy, key } = this.#filter;
    const query = new URLSearchParams({ ...(policy && { policy }), ...(key && { key }) });
    return `/v1/events${query.size === 0 ? '' : `?${query}`}`;
  }

  /** Clears the errors of the previous stream and opens a new one. */
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
    const on = <T>(name: string, handle: (data: T) => void): void =>
      source.addEventListener(name, ({ data }) => handle(JSON.parse(data)));
    on<HelloEvent>('hello', (hello) => this.#onHello(hello));
    on<Tick>('tick', (tick) => this.#onTick(tick));
    on<ChangedEvent>('changed', (change) => this.#notifyChanged(change));
    on<EndEvent>('end', ({ why }) => this.#onLost(why === 'expired' ? EXPIRED_RETRY_MS : RETRY_MS));
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

  #onHello(hello: HelloEvent): void {
    const isSameProcess = hello.startedAtMs === this.hello?.startedAtMs;
    const hasNoGap = Math.abs(hello.atMs - this.history.lastMs) < MAX_GAP_MS;
    const wasLost = this.state === 'lost';
    this.hello = hello;
    this.#hasHello = true;
    this.#offsetMs = hello.atMs - nowMs();
    this.denialsSinceMs ??= hello.atMs;
    this.#restartSilenceTimer();
    if (!isSameProcess || !hasNoGap) this.#loadHistory();
    // The feed missed `changed` events while disconnected: assume that everything has changed.
    if (wasLost) {
      for (const what of ['policies', 'overrides'] as const) this.#notifyChanged({ what });
    }
  }

  #notifyChanged(change: ChangedEvent): void {
    for (const listener of this.#changeListeners) listener(change);
  }

  /** Replaces the history by the response of `/v1/series`, then adds the ticks received since. */
  #loadHistory(): void {
    const pending: Tick[] = [];
    this.#pending = pending;
    const isLatest = (): boolean => this.#pending === pending;
    void this.#api.series({ seconds: HISTORY_SECONDS }).then(
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
      if (this.#pending.length > MAX_PENDING_TICKS) this.#pending.shift();
    } else if (missed > 0 || isFirst) this.#loadHistory();
    this.denials.add(tick.denials);
    const repeats = tick.denials.reduce((sum, each) => sum + (each.repeats ?? 0), 0);
    this.denialsOmitted += tick.denialsOmitted - repeats;
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
    this.lostAtMs ??= this.nowMs;
    this.#notify();
    this.#cancelRetry = after(retryMs, () => void this.#retry());
  }

  /** Opens the stream again. If the session has expired, calls `onSignedOut` instead. */
  async #retry(): Promise<void> {
    const generation = this.#generation;
    const cause = await this.#diagnose().catch(() => 'unreachable' as const);
    if (generation !== this.#generation) return;
    this.problem = cause instanceof Error ? cause.message : undefined;
    // The stream request fails if the policy in the filter was deleted: reload the policies.
    if (cause instanceof Error) this.#notifyChanged({ what: 'policies' });
    if (cause === 'signed out') this.#api.onSignedOut();
    else if (cause === 'unreachable') this.#onLost();
    else this.open();
  }

  /**
   * Resolves to the reason why the stream failed, or to undefined if it can be opened again. Sends
   * requests to find the reason, because EventSource does not report it.
   */
  async #diagnose(): Promise<'signed out' | ApiError | undefined> {
    const { signedIn } = await this.#api.session();
    if (!signedIn) return 'signed out';
    return this.#hasHello ? undefined : this.#api.streamError(this.#url);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
