/**
 * Processes with leases of one hot key are killed and stopped at random moments. All of them log
 * their admissions by the same monotonic clock. No window certainly contains more than the limit.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { AdmissionLog, windowsOver } from '../../../../tools/admissions.mjs';
import { startRedis } from '../../../../tools/servers/redis.mjs';
import { isFull, needRedis } from './campaign.ts';
import { Spenders } from './lease-processes.ts';

const PROCESSES = isFull ? 16 : 4;
const LIMIT = isFull ? 50_000 : 2000;
/** The calls per second, in limits. More calls borrow more units, so that an error shows sooner. */
const LOAD = isFull ? 1.5 : 4;
const DECISIONS = isFull ? 10_000_000 : 20_000;
/** Of each kind: SIGKILL and SIGSTOP. */
const FAULTS = isFull ? 100 : 3;
const [SHORTEST_STOP_MS, LONGEST_STOP_MS] = [100, isFull ? 3000 : 1000];
/** The mean time between two faults. */
const FAULT_MS = isFull ? 700 : 200;

const between = (least: number, most: number): number => least + Math.random() * (most - least);
const anyOf = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)];

needRedis();

describe('windowsOver', () => {
  const windows = (intervals: readonly (readonly [number, number, number])[]) => {
    const log = new AdmissionLog();
    for (const [fromMs, toMs, units] of intervals) log.add(fromMs, toMs, units);
    return windowsOver(log.numbers(), 999, 10);
  };

  it('a window certainly contains the intervals that are within it', () => {
    const inOne = [
      [5000.5, 5000.9, 6],
      [5500.1, 5998.2, 5],
    ] as const;
    expect(windows(inOne)).toEqual({ most: 11, over: 1 });
  });

  it('a window does not certainly contain an interval that ends after it', () => {
    const inTwo = [
      [5000.5, 5000.9, 6],
      [5500.1, 5999.2, 5],
    ] as const;
    expect(windows(inTwo)).toEqual({ most: 6, over: 0 });
  });

  it('an interval that began before the window is not certainly in it', () => {
    const overlapping = [
      [4999.9, 5600, 6],
      [5000, 5998.5, 6],
    ] as const;
    expect(windows(overlapping)).toEqual({ most: 6, over: 0 });
  });

  it('without admissions, no window is over', () => {
    expect(windows([])).toEqual({ most: 0, over: 0 });
  });
});

async function injectFaults(spenders: Spenders): Promise<void> {
  const resumed: Promise<void>[] = [];
  const faults = Array.from({ length: 2 * FAULTS }, (_, number) => number % 2 === 0);
  for (const isKill of faults) {
    await sleep(between(0, 2 * FAULT_MS));
    let spender = anyOf(spenders.all);
    while (!spender.isRunning) {
      await sleep(10);
      spender = anyOf(spenders.all);
    }
    if (isKill) {
      await spender.kill();
      spender.start();
    } else {
      spender.signal('SIGSTOP');
      const stopMs = between(SHORTEST_STOP_MS, LONGEST_STOP_MS);
      resumed.push(sleep(stopMs).then(() => spender.signal('SIGCONT')));
    }
  }
  await Promise.all(resumed);
}

it('no window exceeds the limit while processes with leases are killed and stopped', async () => {
  const server = await startRedis();
  const policy = { limit: LIMIT, window: 1000, lease: true };
  const perSecond = (LOAD * LIMIT) / PROCESSES;
  const options = { url: server.url, policy, perSecond };
  const spenders = new Spenders(Array.from({ length: PROCESSES }, () => options));
  try {
    await injectFaults(spenders);
    while (spenders.counts().decisions < DECISIONS || spenders.counts().leased === 0) {
      await sleep(50);
    }
    const counts = spenders.counts();
    const { admitted, most, over } = await spenders.stop();
    if (isFull) console.log({ ...counts, admitted, most, over });
    expect(over).toBe(0);
    expect(admitted).toBeGreaterThan(0);
  } finally {
    await spenders.stop();
    await server.stop();
  }
});
