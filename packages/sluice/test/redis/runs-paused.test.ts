/**
 * Processes that are paused for longer than their lease, as by a suspended machine. Another process
 * takes the slot. The paused one must abort its run before any further work of it is admitted.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { isFull, newPrefix, useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();
const PAIRS = isFull ? 4 : 1;
const PAUSES = isFull ? 25 : 2;
const LEASE_MS = 1000;

interface Event {
  readonly what: string;
  readonly fence?: number;
  /** When the server admitted other work. */
  readonly decidedMs?: number;
  readonly atMs: number;
}

const clockMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** A process, and the events that it has sent. */
class Worker {
  readonly events: Event[] = [];
  readonly #child: ChildProcess;
  #error: Error | undefined;

  constructor(settings: object) {
    const worker = new URL('paused-worker.mjs', import.meta.url).pathname;
    this.#child = fork(worker, [JSON.stringify(settings)]);
    this.#child.on('message', (event: Event) => this.events.push(event));
    this.#child.on('exit', (code) => {
      this.#error = new Error(`Expected the worker to run on, it exited with ${code}`);
    });
  }

  send(signal: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    this.#child.kill(signal);
  }

  /** Waits until an event that arrived after `place` others fits. Returns it. */
  async next(place: number, fits: (event: Event) => boolean): Promise<Event> {
    const deadlineMs = clockMs() + 30_000;
    for (;;) {
      const found = this.events.slice(place).find(fits);
      if (found !== undefined) return found;
      if (this.#error !== undefined) throw this.#error;
      if (clockMs() > deadlineMs) throw new Error('Expected an event within 30 s');
      await sleep(5);
    }
  }
}

interface Pause {
  readonly fence: number;
  /** The first event after the pause, except for work that was admitted before it. */
  readonly first: Event;
  /** How often the other process got the slot meanwhile. */
  readonly taken: number;
}

/** Pauses the holder while it holds the slot, until the other process has it. */
async function pause(holder: Worker, other: Worker, waitMs: number): Promise<Pause> {
  const isStart = ({ what }: Event): boolean => what === 'started';
  const place = holder.events.findLastIndex(({ what }) => what === 'ERR_LEASE_LOST') + 1;
  const { fence } = await holder.next(place, isStart);
  await sleep(waitMs);
  holder.send('SIGSTOP');
  const stoppedMs = Date.now();
  const seen = other.events.length;
  await sleep(LEASE_MS + 100);
  await other.next(seen, isStart);
  const resumedMs = clockMs();
  const taken = other.events.slice(seen).filter(isStart).length;
  holder.send('SIGCONT');
  const first = await holder.next(
    place,
    ({ atMs, decidedMs = stoppedMs + 1 }) => atMs >= resumedMs && decidedMs > stoppedMs,
  );
  await holder.next(place, ({ what }) => what === 'ERR_LEASE_LOST');
  return { fence: fence!, first, taken };
}

/** Returns the fences of a pair in the order in which the runs started. */
const fencesOf = (workers: readonly Worker[]): number[] =>
  workers
    .flatMap(({ events }) => events.filter(({ what }) => what === 'started'))
    .sort((one, other) => one.atMs - other.atMs)
    .map(({ fence }) => fence!);

describe('a process that is paused for longer than its lease', () => {
  it('a paused holder is aborted before it admits other work, and fences increase', async () => {
    const prefix = newPrefix();
    const pairs = Array.from({ length: PAIRS }, (_, number) => {
      const settings = { url: world.server.url, prefix, key: `key-${number}`, lease: LEASE_MS };
      return [true, false].map((isHolder) => new Worker({ ...settings, isHolder }));
    });
    const dice = new Dice(3);
    try {
      const pausesOf = async ([holder, other]: readonly Worker[]): Promise<Pause[]> => {
        const pauses: Pause[] = [];
        while (pauses.length < PAUSES) pauses.push(await pause(holder, other, dice.roll(400)));
        return pauses;
      };
      const pauses = (await Promise.all(pairs.map(pausesOf))).flat();
      for (const { fence, first, taken } of pauses) {
        expect([first.what, first.fence]).toEqual(['ERR_LEASE_LOST', fence]);
        expect(taken).toBeGreaterThan(0);
      }
      const others = pairs.flatMap(([{ events }]) =>
        events.filter(({ what }) => what.startsWith('other')),
      );
      // Otherwise there was no work that could have been admitted too early.
      expect(others.length).toBeGreaterThan(20);
      for (const pair of pairs) {
        const fences = fencesOf(pair);
        expect(fences.length).toBeGreaterThan(2 * PAUSES);
        expect(fences.every((fence, at) => at === 0 || fence > fences[at - 1])).toBe(true);
      }
      if (isFull) console.log(`${pauses.length} pauses, ${others.length} other calls`);
    } finally {
      for (const worker of pairs.flat()) worker.send('SIGKILL');
    }
  });
});
