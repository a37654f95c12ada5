/**
 * What the service tells once a second. A stream that ends is opened again, and what was missed is
 * then filled in from what the service remembers.
 */
import { after } from '../clock.ts';
import type { Api } from './client.ts';
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
const MOST_DENIALS = 500;

export class Feed {
  readonly history = new History();
  state: FeedState = 'connecting';
  hello: Hello | undefined = undefined;
  last: Tick | undefined = undefined;
  /** The newest first. */
  denials: readonly Denial[] = [];
  /** How many more there were than are told, since the filter was set. */
  denialsOmitted = 0;
  readonly #api: Api;
  readonly #listeners = new Set<() => void>();
  readonly #changeListeners = new Set<(change: Changed) => void>();
  #filter: DenialFilter = {};
  #source: EventSource | undefined = undefined;
  #cancelSilence: () => void = () => {};
  #cancelRetry: () => void = () => {};

  constructor(api: Api) {
    this.#api = api;
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

  /** Has only such denials told from now on. */
  filter({ policy, key }: DenialFilter): void {
    if (policy === this.#filter.policy && key === this.#filter.key) return;
    this.#filter = { policy, key };
    this.denials = [];
    this.denialsOmitted = 0;
    if (this.#source !== undefined) this.open();
  }

  open(): void {
    this.close();
    const { policy, key } = this.#filter;
    const query = new URLSearchParams({ ...(policy && { policy }), ...(key && { key }) });
    const source = new EventSource(`/v1/events${query.size === 0 ? '' : `?${query}`}`);
    this.#source = source;
    const on = <T>(name: string, take: (data: T) => void): void =>
      source.addEventListener(name, ({ data }) => take(JSON.parse(data)));
    on<Hello>('hello', (hello) => this.#began(hello));
    on<Tick>('tick', (tick) => this.#ticked(tick));
    on<Changed>('changed', (change) => {
      for (const listener of this.#changeListeners) listener(change);
    });
    on<End>('end', () => this.#lost());
    source.addEventListener('error', () => this.#lost());
    this.#expectWord();
  }

  close(): void {
    this.#cancelRetry();
    this.#cancelSilence();
    this.#source?.close();
    this.#source = undefined;
  }

  #began(hello: Hello): void {
    this.hello = hello;
    this.#expectWord();
    void this.#api.series(HISTORY_SECONDS).then(
      (report) => {
        this.history.fill(report);
        this.#tell();
      },
      () => {},
    );
  }

  #ticked(tick: Tick): void {
    this.state = 'live';
    this.last = tick;
    this.history.add(tick);
    this.denials = [...[...tick.denials].reverse(), ...this.denials].slice(0, MOST_DENIALS);
    this.denialsOmitted += tick.denialsOmitted;
    this.#expectWord();
    this.#tell();
  }

  #expectWord(): void {
    this.#cancelSilence();
    this.#cancelSilence = after(SILENT_MS, () => this.#lost());
  }

  /** Also finds out whether the session is over, which a stream cannot tell. */
  #lost(): void {
    this.close();
    this.state = 'lost';
    this.#tell();
    this.#cancelRetry = after(RETRY_MS, () => {
      void this.#api.session().then(
        ({ signedIn }) => (signedIn ? this.open() : this.#api.onSignedOut()),
        () => this.#lost(),
      );
    });
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
