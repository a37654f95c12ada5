/**
 * What the service tells once a second. A stream that ends is opened again, and what was missed is
 * then filled in from what the service remembers.
 */
import { after, nowMs } from '../clock.ts';
import type { Api, ApiError } from './client.ts';
import { HISTORY_SECONDS, History } from './history.ts';
import type { Changed, Denial, End, Hello, Tick } from './types.ts';

/** `lost`: it was there, or should have been, and is not; it is tried again. */
export type FeedState = 'connecting' | 'live' | 'lost';

export interface DenialFilter {
  readonly policy?: string | undefined;
  /** May have `*` in it. */
  readonly key?: string | undefined;
}

/** A service that says nothing for so long is as good as away. */
const SILENT_MS = 4000;
const RETRY_MS = 2000;
const MAX_DENIALS = 500;
/** A stream that begins so soon after the last second that was told has missed none. */
const FRESH_MS = 2500;
const MAX_WAITING = 30;

export class Feed {
  readonly history = new History();
  state: FeedState = 'connecting';
  /** Since when it is lost, by the clock of this browser. */
  lostAtMs: number | undefined = undefined;
  /** What the service says why there is no stream, if it answers at all. */
  problem: string | undefined = undefined;
  hello: Hello | undefined = undefined;
  last: Tick | undefined = undefined;
  /** The newest first. */
  denials: readonly Denial[] = [];
  /** Since when they are collected: since the filter was set. */
  denialsSinceMs = nowMs();
  /** How many were told since then, also if they are not kept any more. */
  denialsTold = 0;
  /** How many more there were than were told. */
  denialsOmitted = 0;
  readonly #api: Api;
  readonly #listeners = new Set<() => void>();
  readonly #changeListeners = new Set<(change: Changed) => void>();
  #filter: DenialFilter = {};
  #source: EventSource | undefined = undefined;
  /** Seconds that came while it is asked for those before them. */
  #waiting: Tick[] | undefined = undefined;
  #isGreeted = false;
  /** Counts closings, so that whoever waits for an answer knows that it is too late. */
  #turn = 0;
  #aheadMs = 0;
  #cancelSilence: () => void = () => {};
  #cancelRetry: () => void = () => {};

  constructor(api: Api) {
    this.#api = api;
  }

  /** The time now, by the clock of the service. */
  get nowMs(): number {
    return nowMs() + this.#aheadMs;
  }

  /** Called with every tick and every change of the state; the answer calls it off. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Called when policies or overrides are not what they were. */
  onChanged(listener: (change: Changed) => void): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  /** Has only such denials told from now on; tells whether that is something else than before. */
  filter({ policy, key }: DenialFilter): boolean {
    if (policy === this.#filter.policy && key === this.#filter.key) return false;
    this.#filter = { policy, key };
    this.denials = [];
    this.denialsSinceMs = nowMs();
    this.denialsTold = 0;
    this.denialsOmitted = 0;
    if (this.#source !== undefined) this.open();
    return true;
  }

  get #url(): string {
    const { policy, key } = this.#filter;
    const query = new URLSearchParams({ ...(policy && { policy }), ...(key && { key }) });
    return `/v1/events${query.size === 0 ? '' : `?${query}`}`;
  }

  /** Begins anew, as somebody who has only just come. */
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
    this.#isGreeted = false;
    const on = <T>(name: string, take: (data: T) => void): void =>
      source.addEventListener(name, ({ data }) => take(JSON.parse(data)));
    on<Hello>('hello', (hello) => this.#began(hello));
    on<Tick>('tick', (tick) => this.#ticked(tick));
    on<Changed>('changed', (change) => this.#changed(change));
    on<End>('end', () => this.#lost());
    source.addEventListener('error', () => this.#lost());
    this.#expectWord();
  }

  close(): void {
    this.#turn++;
    this.#cancelRetry();
    this.#cancelSilence();
    this.#source?.close();
    this.#source = undefined;
  }

  #began(hello: Hello): void {
    const isSame = hello.startedAtMs === this.hello?.startedAtMs;
    const isFresh = Math.abs(hello.atMs - this.history.lastMs) < FRESH_MS;
    const wasLost = this.state === 'lost';
    this.hello = hello;
    this.#isGreeted = true;
    this.#aheadMs = hello.atMs - nowMs();
    this.#expectWord();
    if (!isSame || !isFresh) this.#fillIn();
    // Nobody told what was changed meanwhile.
    if (wasLost) for (const what of ['policies', 'overrides'] as const) this.#changed({ what });
  }

  #changed(change: Changed): void {
    for (const listener of this.#changeListeners) listener(change);
  }

  /** Seconds that are told meanwhile come after those that are filled in. */
  #fillIn(): void {
    const waiting: Tick[] = [];
    this.#waiting = waiting;
    const isLatest = (): boolean => this.#waiting === waiting;
    void this.#api.series(HISTORY_SECONDS).then(
      (report) => {
        if (!isLatest()) return;
        this.#waiting = undefined;
        this.history.fill(report);
        for (const tick of waiting) this.history.add(tick);
        this.#tell();
      },
      () => {
        if (isLatest()) this.#waiting = undefined;
      },
    );
  }

  #ticked(tick: Tick): void {
    this.state = 'live';
    this.lostAtMs = undefined;
    this.problem = undefined;
    this.last = tick;
    const isFirst = this.history.lastMs === 0;
    const missed = this.history.add(tick);
    if (this.#waiting !== undefined) {
      this.#waiting.push(tick);
      if (this.#waiting.length > MAX_WAITING) this.#waiting.shift();
    } else if (missed > 0 || isFirst) this.#fillIn();
    this.denials = [...[...tick.denials].reverse(), ...this.denials].slice(0, MAX_DENIALS);
    this.denialsTold += tick.denials.length;
    this.denialsOmitted += tick.denialsOmitted;
    this.#expectWord();
    this.#tell();
  }

  #expectWord(): void {
    this.#cancelSilence();
    this.#cancelSilence = after(SILENT_MS, () => this.#lost());
  }

  #lost(): void {
    this.close();
    this.state = 'lost';
    this.lostAtMs ??= nowMs();
    this.#tell();
    this.#cancelRetry = after(RETRY_MS, () => void this.#retry());
  }

  /** Also finds out whether the session is over, which a stream cannot tell. */
  async #retry(): Promise<void> {
    const turn = this.#turn;
    const answer = await this.#askAfter().catch(() => 'away' as const);
    if (turn !== this.#turn) return;
    this.problem = answer instanceof Error ? answer.message : undefined;
    // Whoever filters by a policy may not know that it is gone.
    if (answer instanceof Error) this.#changed({ what: 'policies' });
    if (answer === 'signed out') this.#api.onSignedOut();
    else if (answer === 'away') this.#lost();
    else this.open();
  }

  /** A stream that never began may have been refused; undefined if nothing speaks against it. */
  async #askAfter(): Promise<'signed out' | ApiError | undefined> {
    const { signedIn } = await this.#api.session();
    if (!signedIn) return 'signed out';
    return this.#isGreeted ? undefined : this.#api.whyNotEvents(this.#url);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
