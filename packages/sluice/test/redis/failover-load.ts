/** Processes that check the same keys while servers fail, and the figures of their calls. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { ClientName } from '../../../../tools/servers/clients.mjs';
import type { RedisServer, SentinelGroup } from '../../../../tools/servers/redis.mjs';
import type { FailureOptions } from '../../src/failure/index.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Which servers the clients connect to. */
export type Target =
  | { readonly url: string }
  | { readonly sentinels: readonly Address[]; readonly masterName: string }
  | { readonly nodes: readonly Address[] };

export interface LoadSettings {
  readonly target: Target;
  readonly client: ClientName;
  readonly policy: { readonly limit: number; readonly window: number };
  readonly keys: readonly string[];
  /** Calls per second of each process, over all keys and settings. */
  readonly perSecond: number;
  /** Each process checks every key with each of these; their prefixes keep the counts apart. */
  readonly settings: readonly (FailureOptions & { readonly prefix: string })[];
}

/** One finished call. Times are in ms since the epoch. */
export interface CallRecord {
  readonly setting: number;
  readonly key: number;
  readonly begunMs: number;
  readonly endedMs: number;
  readonly atMs: number;
  readonly allowed: boolean;
  readonly degraded: boolean;
}

interface Report {
  readonly decidedMs: readonly (readonly number[])[];
  readonly warnings?: readonly string[];
  readonly errors?: readonly string[];
}

const FIELDS = 7;
const PATIENCE_MS = 60_000;

/** Milliseconds since the epoch, with fractions. */
export const wallMs = (): number => performance.timeOrigin + performance.now();

export const addressOf = ({ host, port }: Address): Address => ({ host, port });

export const sentinelTarget = ({ sentinels, masterName }: SentinelGroup): Target => ({
  sentinels: sentinels.map(addressOf),
  masterName,
});

/** Resolves when `isTrue` returns true; rejects with `what` after a minute. */
export async function waitFor(
  what: string,
  isTrue: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadlineMs = wallMs() + PATIENCE_MS;
  while (!(await isTrue())) {
    if (wallMs() > deadlineMs) throw new Error(`waited ${PATIENCE_MS} ms until ${what}`);
    await sleep(5);
  }
}

export class FailoverLoad {
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-failover-'));
  readonly #children: readonly ChildProcess[];
  readonly #reports: Report[] = [];
  readonly #isEnded: boolean[] = [];

  constructor(settings: LoadSettings, processes: number) {
    this.#children = Array.from({ length: processes }, (_, place) => {
      const argument = JSON.stringify({ ...settings, file: this.#fileOf(place) });
      const worker = new URL('failover-worker.mjs', import.meta.url).pathname;
      const child = fork(worker, [argument], { execArgv: [] });
      child.on('message', (report) => {
        this.#reports[place] = report as Report;
      });
      child.on('exit', () => {
        this.#isEnded[place] = true;
      });
      return child;
    });
  }

  #fileOf(place: number): string {
    return join(this.#folder, `${place}`);
  }

  /** Returns whether a server decided, in every process, a call to each key begun since then. */
  isDecided(sinceMs: number, keys?: readonly number[]): boolean {
    return this.backMs(sinceMs, keys) < Number.POSITIVE_INFINITY;
  }

  /** Returns the start of the last call that makes `isDecided` true, or infinity. */
  backMs(sinceMs: number, keys?: readonly number[]): number {
    let latest = 0;
    for (let place = 0; place < this.#children.length; place++) {
      const times = this.#reports[place]?.decidedMs;
      if (times === undefined || this.#isEnded[place]) return Number.POSITIVE_INFINITY;
      for (const perKey of times) {
        for (const [key, atMs] of perKey.entries()) {
          if (keys !== undefined && !keys.includes(key)) continue;
          if (atMs < sinceMs) return Number.POSITIVE_INFINITY;
          latest = Math.max(latest, atMs);
        }
      }
    }
    return latest;
  }

  /** Resolves when servers decide the calls of every process. */
  running(): Promise<void> {
    const sinceMs = wallMs();
    return waitFor('all processes run', () => {
      if (this.#isEnded.includes(true)) throw new Error('A process ended early');
      return this.isDecided(sinceMs);
    });
  }

  /** Ends the processes, and returns their calls in the order of their decisions. */
  async stop(): Promise<CallRecord[]> {
    try {
      for (const child of this.#children) if (child.connected) child.send('stop');
      await waitFor('all processes end', () =>
        this.#children.every((_, place) => this.#isEnded[place]),
      );
      for (const { warnings, errors } of this.#reports) {
        expect({ warnings, errors }).toEqual({ warnings: [], errors: [] });
      }
      const calls = this.#children.flatMap((_, place) => readCalls(this.#fileOf(place)));
      return calls.sort((a, b) => a.atMs - b.atMs);
    } finally {
      this.kill();
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  kill(): void {
    for (const child of this.#children) child.kill('SIGKILL');
  }
}

function readCalls(file: string): CallRecord[] {
  const bytes = readFileSync(file);
  const numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  const calls: CallRecord[] = [];
  for (let at = 0; at < numbers.length; at += FIELDS) {
    const [setting, key, begunMs, endedMs, atMs, allowed, degraded] = numbers.subarray(
      at,
      at + FIELDS,
    );
    const flags = { allowed: allowed === 1, degraded: degraded === 1 };
    calls.push({ setting, key, begunMs, endedMs, atMs, ...flags });
  }
  return calls;
}

/** When a failover happened, in ms since the epoch. */
export interface Promotion {
  /** The first replica reported the role of a master. */
  readonly roleMs: number;
  /** The first sentinel published the new master; in a Cluster the same as `roleMs`. */
  readonly announcedMs: number;
  readonly master: RedisServer;
}

/** Watches for a failover from now on; `sentinels` is empty for a Cluster. */
export async function watchPromotion(
  replicas: readonly RedisServer[],
  sentinels: readonly RedisServer[] = [],
): Promise<() => Promise<Promotion>> {
  let announcedMs = 0;
  const subscribers = await Promise.all(
    sentinels.map(async ({ host, port }) => {
      const subscriber = new Redis({ host, port, retryStrategy: () => null });
      subscriber.on('error', () => {});
      subscriber.on('message', () => {
        announcedMs ||= wallMs();
      });
      await subscriber.subscribe('+switch-master');
      return subscriber;
    }),
  );
  return async () => {
    let master: RedisServer | undefined;
    await waitFor('a replica is master', async () => {
      const roles = await Promise.all(
        replicas.map((replica) => replica.command<string[]>('ROLE').catch(() => [''])),
      );
      master = replicas[roles.findIndex(([role]) => role === 'master')];
      return master !== undefined;
    });
    const roleMs = wallMs();
    await waitFor('a sentinel announces it', () => subscribers.length === 0 || announcedMs > 0);
    for (const subscriber of subscribers) subscriber.disconnect();
    return { roleMs, announcedMs: announcedMs || roleMs, master: master! };
  };
}
