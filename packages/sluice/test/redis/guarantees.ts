/**
 * Shared by the tests of the failure bounds in docs/redis.md, one for each row in which servers
 * fail: several processes check the same keys, and no window holds more than the row allows.
 * `copies` is how many states of a key exist in one window: the one that is lost, or left behind
 * on a stale master, and its successor.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  type Cluster,
  type RedisServer,
  type SentinelGroup,
  startCluster,
  startSentinel,
} from '../../../../tools/servers/redis.mjs';
import { isFull } from './campaign.ts';
import {
  addressOf,
  type CallRecord,
  FailoverLoad,
  sentinelTarget,
  type Target,
  waitFor,
  watchPromotion,
} from './failover-load.ts';
import { mostInAnyWindow } from './load.ts';

export const PROCESSES = isFull ? 4 : 2;
export const LIMIT = isFull ? 40 : 20;
/** Longer than a test, so that one window holds the calls before, during and after the fault. */
export const LONG_MS = 60_000;
/** Shorter than the time that two masters serve a planned failover: entries expire meanwhile. */
export const SHORT_MS = 1500;
const KEYS = Array.from({ length: 6 }, (_, place) => `key ${place}`);
const SETTINGS = [
  { prefix: 'd:', onFailure: 'deny' },
  { prefix: 'l:', onFailure: 'local' },
  { prefix: 'q:', onFailure: 'local', localShare: 1 / PROCESSES },
] as const;
export const DENY = 0;
export const LOCAL = 1;
const PER_SECOND = isFull ? 900 : 600;

/** The bound of docs/redis.md for one setting. */
function boundOf(setting: (typeof SETTINGS)[number], copies: number, processes: number): number {
  if (setting.onFailure === 'deny') return copies * LIMIT;
  const share = 'localShare' in setting ? setting.localShare : 1;
  return copies * LIMIT + processes * Math.max(1, Math.floor(share * LIMIT));
}

/** Fails if a window holds more than the bound; returns the most of each setting. */
export function checkBounds(
  calls: readonly CallRecord[],
  copies: number,
  windowMs = LONG_MS,
): number[] {
  const most = SETTINGS.map((_, setting) => {
    const admitted = calls.filter((call) => call.allowed && call.setting === setting);
    const admissions = admitted.map(({ key, atMs }) => ({ key: KEYS[key], atMs }));
    return mostInAnyWindow(admissions, windowMs);
  });
  const bounds = SETTINGS.map((setting) => boundOf(setting, copies, PROCESSES));
  if (isFull) console.log(`${expect.getState().currentTestName}: ${most} of ${bounds}`);
  for (const [place, bound] of bounds.entries()) expect(most[place]).toBeLessThanOrEqual(bound);
  return most;
}

export const loadOn = (target: Target, windowMs = LONG_MS, processes = PROCESSES): FailoverLoad =>
  new FailoverLoad(
    {
      target,
      client: 'ioredis',
      policy: { limit: LIMIT, window: windowMs },
      keys: KEYS,
      perSecond: PER_SECOND,
      settings: SETTINGS,
    },
    processes,
  );

/** Long enough for every process to use up each limit, at the server or by itself. */
export const useUp = (): Promise<void> =>
  sleep(((LIMIT * KEYS.length * SETTINGS.length) / PER_SECOND) * 1200);

interface Fault {
  readonly target: Target;
  readonly windowMs?: number;
  readonly replicas: readonly RedisServer[];
  readonly sentinels?: readonly RedisServer[];
  readonly prepare?: () => Promise<void>;
  readonly fail: () => Promise<void>;
  /** After the new master has taken over. */
  readonly heal?: () => Promise<void>;
}

/** Runs the load through a failover, until every key is decided by a server again. */
async function failOver(fault: Fault): Promise<CallRecord[]> {
  await fault.prepare?.();
  const load = loadOn(fault.target, fault.windowMs);
  try {
    await load.running();
    await useUp();
    const promotion = await watchPromotion(fault.replicas, fault.sentinels);
    const failed = fault.fail();
    const { announcedMs } = await promotion();
    await failed;
    await waitFor('every key is decided again', () => load.isDecided(announcedMs));
    await fault.heal?.();
    await useUp();
    return await load.stop();
  } finally {
    load.kill();
  }
}

/**
 * Stops replication to these replicas. Data for a stopped process waits in buffers of the system
 * and would be read later, so this sends more than they hold.
 */
export async function deafen(master: RedisServer, replicas: readonly RedisServer[]): Promise<void> {
  for (const replica of replicas) await replica.pause();
  const flood = "return redis.call('SET', KEYS[1], string.rep('x', 50000000), 'PX', 60000)";
  // A key of the first slots, which the first master of a Cluster serves.
  await master.command('EVAL', flood, 1, 'flood {key 2}');
}

export async function withSentinel(
  faultOf: (group: SentinelGroup) => Partial<Fault> & Pick<Fault, 'fail'>,
): Promise<CallRecord[]> {
  const group = await startSentinel();
  const { replicas, sentinels } = group;
  try {
    const fault = faultOf(group);
    return await failOver({ target: sentinelTarget(group), replicas, sentinels, ...fault });
  } finally {
    await group.stop();
  }
}

export async function withCluster(
  faultOf: (cluster: Cluster) => Partial<Fault> & Pick<Fault, 'fail'>,
): Promise<CallRecord[]> {
  const cluster = await startCluster();
  try {
    const fault = faultOf(cluster);
    const target = { nodes: cluster.nodes.map(addressOf) };
    return await failOver({ target, replicas: [cluster.nodes[3]], ...fault });
  } finally {
    await cluster.stop();
  }
}
