/**
 * Processes that call `run` and are killed at random moments: no key ever has more holds than its
 * limit, and none is left when the leases have ended.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { createLimiter } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { isFull, newPrefix, silent, useRedis } from './campaign.ts';
import { checkHolds, type RunEvent, runProcesses } from './runs.ts';

const world = useRedis();
const KEYS = 4;
const PROCESSES = isFull ? 8 : 4;
/** So few slots that all are held, also on a busy machine. */
const SLOTS = isFull ? 20 : 5;
const LEASE_MS = isFull ? 2000 : 1000;
const POLICY = { concurrency: SLOTS, lease: LEASE_MS };

const folder = mkdtempSync(join(tmpdir(), 'sluice-runs-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Expects that no slot is held and no key is left, one lease and a second after the last run. */
async function expectNothingHeld(prefix: string): Promise<void> {
  await sleep(LEASE_MS + 1000);
  const store = redisStore(world.send, { ...silent, prefix, onFailure: 'throw' });
  const limiter = createLimiter({ policies: { jobs: POLICY }, store });
  for (let key = 0; key < KEYS; key++) {
    expect((await limiter.inspect('jobs', `key-${key}`))?.used ?? 0).toBe(0);
  }
  expect(await world.client.keys(`${prefix}*`)).toEqual([]);
}

/** Checks the holds of each key. Returns the number of holds. */
function expectWithinLimit(events: readonly RunEvent[]): number {
  const found = Array.from({ length: KEYS }, (_, key) =>
    checkHolds(
      events.filter((event) => event.key === key),
      POLICY,
    ),
  );
  if (isFull) console.log('holds of each key', found);
  for (const { over, uncounted, disordered, most } of found) {
    expect({ over, uncounted, disordered }).toEqual({ over: 0, uncounted: 0, disordered: 0 });
    // Otherwise the check would show nothing.
    expect(most).toBeGreaterThanOrEqual(0.8 * SLOTS);
  }
  return found.reduce((sum, { holds }) => sum + holds, 0);
}

/** Counts the runs by how they ended. A run without an end was killed. */
function countEnds(events: readonly RunEvent[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of events) counts[kind] = (counts[kind] ?? 0) + 1;
  const { admitted = 0, ...ends } = counts;
  const ended = Object.values(ends).reduce((sum, count) => sum + count, 0);
  return { ...ends, kill: admitted - ended };
}

describe('the checker of holds', () => {
  const policy = { concurrency: 2, lease: 1000 };
  const admitted = (fence: number, atMs: number, remaining: number): RunEvent => ({
    ...{ kind: 'admitted', key: 0, fence, atMs, remaining },
  });
  const ended = (fence: number, atMs: number): RunEvent => ({
    ...{ kind: 'return', key: 0, fence, atMs, remaining: 0 },
  });
  const two = [admitted(1, 5, 1), admitted(2, 6, 0)];

  it('the checker of holds detects a third hold while two are held', () => {
    expect(checkHolds([...two, admitted(3, 7, 0)], policy).over).toBe(1);
    expect(checkHolds([...two, ended(1, 8), admitted(3, 7, 0)], policy).over).toBe(1);
  });

  it('the checker of holds accepts a hold after a release, or after a lease', () => {
    expect(checkHolds([...two, ended(1, 7), admitted(3, 7, 0)], policy).over).toBe(0);
    expect(checkHolds([...two, admitted(3, 1005, 0)], policy).over).toBe(0);
  });

  it('the checker of holds detects a hold that the store does not count', () => {
    expect(checkHolds([admitted(1, 5, 1), admitted(2, 6, 1)], policy).uncounted).toBe(1);
  });

  it('the checker of holds detects a fence that is used twice, and one of an earlier time', () => {
    expect(checkHolds([admitted(1, 5, 1), admitted(1, 6, 0)], policy).disordered).toBe(1);
    expect(checkHolds([admitted(1, 5, 1), admitted(2, 4, 0)], policy).disordered).toBe(1);
  });
});

describe(`${PROCESSES} processes on ${KEYS} keys`, () => {
  it('no key has more holds than its limit while processes are killed', async () => {
    const prefix = newPrefix();
    const runs = isFull ? 1_000_000 : 2000;
    const kills = isFull ? 200 : 3;
    const { events, kills: killed } = await runProcesses({
      ...{ url: world.server.url, prefix, folder, policy: POLICY },
      ...{ keys: KEYS, runs, processes: PROCESSES, inFlight: 64, workMs: 20 },
      ...{ ways: ['return'], kills },
    });
    expect(killed).toBe(kills);
    expect(expectWithinLimit(events.flat())).toBeGreaterThanOrEqual(runs);
    if (isFull) console.log('ends of runs', countEnds(events.flat()));
    await expectNothingHeld(prefix);
  });

  it('no slot is held one lease after runs that threw, were aborted, cut or killed', async () => {
    const prefix = newPrefix();
    const runs = isFull ? 100_000 : 2000;
    const kills = isFull ? 100 : 2;
    const { events, kills: killed } = await runProcesses({
      ...{ url: world.server.url, prefix, folder, policy: POLICY },
      ...{ keys: KEYS, runs, processes: PROCESSES, inFlight: 64, workMs: 20 },
      ...{ ways: ['throw', 'abort', 'return'], kills, cuts: isFull ? 40 : 1 },
      cut: () => world.server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
    });
    expect(killed).toBe(kills);
    const ends = countEnds(events.flat());
    if (isFull) console.log('ends of runs', ends);
    for (const way of ['throw', 'abort', 'cut', 'kill']) expect(ends[way]).toBeGreaterThan(0);
    expect(expectWithinLimit(events.flat())).toBeGreaterThanOrEqual(runs);
    await expect.poll(() => world.client.status).toBe('ready');
    await expectNothingHeld(prefix);
  });
});
