/**
 * What happens, told live, once a second, to whoever listens. However many do, the crew is asked
 * once a second, and not at all while nobody listens. Every second is told once, also if the crew
 * is late with its answer: then several are told at once.
 */
import { type Clock, systemClock } from 'sluice';
import { type DenialBatch, type DenialFilter, filterText } from './denials.ts';
import { PATIENCE_SECONDS, type Span, STEP_MS } from './history.ts';
import type { Logger } from './log.ts';
import { jointBatch, type TickPart, type TickQuestion, ticksOf } from './tick.ts';
import { version } from './version.ts';

/** In one process. */
export const MAX_STREAMS = 32;

/** What was missed longer ago is in the history alone. */
const MAX_LATE_SECONDS = 10;

/** Changes that come close upon each other are told as one. */
const CHANGE_MS = 50;

export type EndReason = 'expired' | 'stopping' | 'slow';
export type ChangedThing = 'policies' | 'overrides';

/** Somebody who listens. */
export interface Listener {
  readonly filter: DenialFilter;
  /** Whether it may still be told anything. */
  readonly isAdmitted: boolean;
  /** Whether so much waits to be read that it seems to read no more. */
  readonly isSlow: boolean;
  /** `data` is JSON. */
  send(event: 'hello' | 'tick' | 'changed', data: string): void;
  end(why: EndReason): void;
}

/** What is asked of each process of the crew when somebody begins to listen. */
export interface ListenQuestion {
  readonly asker: string;
  readonly filter: DenialFilter;
}

export interface ListenAnswer {
  readonly startedAtMs: number;
}

/** Asks the crew. Whoever does not answer is left out. */
export interface FeedSource {
  listen(question: ListenQuestion): Promise<readonly ListenAnswer[]>;
  tick(question: TickQuestion): Promise<readonly TickPart[]>;
}

export class Feed {
  readonly #source: FeedSource;
  readonly #log: Logger;
  readonly #clock: Clock;
  /** The name under which denials are collected for this process. */
  readonly #asker = crypto.randomUUID();
  /** Those who listen, and whether they have been greeted. */
  readonly #listeners = new Map<Listener, boolean>();
  readonly #changed = new Set<ChangedThing>();
  #cancelTick: (() => void) | undefined = undefined;
  #cancelChanged: (() => void) | undefined = undefined;
  #isAsking = false;
  #isClosed = false;
  /** The start of the first second that has not been told. */
  #nextMs = 0;

  constructor(source: FeedSource, log: Logger, clock: Clock = systemClock) {
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
    void this.#greet(listener);
    this.#arm();
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

  /** Once it is greeted, no denial is missed: by then all processes collect what it wants. */
  async #greet(listener: Listener): Promise<void> {
    const question = { asker: this.#asker, filter: listener.filter };
    const answers = await this.#source.listen(question).catch(() => []);
    if (!this.#listeners.has(listener)) return;
    const atMs = this.#clock.now();
    const startedAtMs = Math.min(atMs, ...answers.map((each) => each.startedAtMs));
    const hello = { version, startedAtMs, atMs, processes: Math.max(answers.length, 1) };
    this.#listeners.set(listener, true);
    listener.send('hello', JSON.stringify(hello));
  }

  #thisSecond(): number {
    const nowMs = this.#clock.now();
    return nowMs - (nowMs % STEP_MS);
  }

  #arm(): void {
    if (this.#cancelTick !== undefined || this.#isAsking || this.#listeners.size === 0) return;
    const delayMs = STEP_MS - (this.#clock.now() % STEP_MS);
    this.#cancelTick = this.#clock.schedule(delayMs, () => {
      this.#cancelTick = undefined;
      void this.#tick();
    });
  }

  async #tick(): Promise<void> {
    this.#isAsking = true;
    try {
      this.#endUnwanted();
      const span = this.#span();
      if (span.seconds > 0 && this.#listeners.size > 0) await this.#tell(span);
    } catch (err) {
      // What was not told now is told with the next tick.
      if (!this.#isClosed) this.#log.warn({ err }, 'could not be told live');
    } finally {
      this.#isAsking = false;
      this.#arm();
    }
  }

  #endUnwanted(): void {
    for (const listener of [...this.#listeners.keys()]) {
      if (!listener.isAdmitted) this.#end(listener, 'expired');
      else if (listener.isSlow) this.#end(listener, 'slow');
    }
  }

  #end(listener: Listener, why: EndReason): void {
    this.leave(listener);
    listener.end(why);
  }

  /** The seconds that are over and have not been told. */
  #span(): Span {
    const endMs = this.#thisSecond();
    // A clock that was set back: the seconds that come again are told again.
    if (this.#nextMs - endMs > PATIENCE_SECONDS * STEP_MS) this.#nextMs = endMs - STEP_MS;
    const startMs = Math.max(this.#nextMs, endMs - MAX_LATE_SECONDS * STEP_MS);
    return { startMs, seconds: Math.max((endMs - startMs) / STEP_MS, 0) };
  }

  async #tell(span: Span): Promise<void> {
    const filters = new Map<string, DenialFilter>();
    for (const { filter } of this.#listeners.keys()) filters.set(filterText(filter), filter);
    const question = { ...span, asker: this.#asker, filters: [...filters.values()] };
    const parts = await this.#source.tick(question);
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
      for (const [listener, isGreeted] of this.#listeners) {
        const denials = isLast ? batches.get(filterText(listener.filter)) : undefined;
        if (isGreeted) listener.send('tick', `${text},${denials ?? NO_DENIALS}}`);
      }
    }
  }

  /** Has those who listen look at something again. */
  changed(...things: readonly ChangedThing[]): void {
    if (this.#listeners.size === 0) return;
    for (const each of things) this.#changed.add(each);
    this.#cancelChanged ??= this.#clock.schedule(CHANGE_MS, () => {
      this.#cancelChanged = undefined;
      const texts = [...this.#changed].map((what) => JSON.stringify({ what }));
      this.#changed.clear();
      for (const listener of this.#listeners.keys()) {
        for (const text of texts) listener.send('changed', text);
      }
    });
  }

  /** Ends all that listen, and those who come from now on. */
  close(): void {
    this.#isClosed = true;
    for (const listener of [...this.#listeners.keys()]) this.#end(listener, 'stopping');
  }
}

const denialsText = ({ denials, omitted }: DenialBatch): string =>
  `"denials":${JSON.stringify(denials)},"denialsOmitted":${omitted}`;

const NO_DENIALS = denialsText({ denials: [], omitted: 0 });
