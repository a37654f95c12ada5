/** Requests get responses while processes are stopped, killed or in an endless loop. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { policy } from '../running.ts';
import { Connection, ConnectionClosed, type Reply } from './connection.ts';
import { type GroupOptions, isAlive, RunningGroup } from './running-group.ts';

const soon = { timeout: 30_000, interval: 20 };
const LIMIT = 1000;
/** `SLUICE_CAMPAIGN=full` stops, kills and blocks every process in every way. */
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const config = {
  policies: [
    policy('p', 1_000_000, '1h'),
    policy('deny', LIMIT, '1h', { onFailure: 'deny' }),
    policy('allow', LIMIT, '1h', { onFailure: 'allow' }),
    policy('local', LIMIT, '1h', { onFailure: 'local' }),
    policy('throw', LIMIT, '1h', { onFailure: 'throw' }),
  ],
};

const running: RunningGroup[] = [];
const stopped: number[] = [];
const open: Connection[] = [];
afterEach(() => {
  for (const pid of stopped.splice(0)) if (isAlive(pid)) process.kill(pid, 'SIGCONT');
  for (const each of open.splice(0)) each.close();
});

/** Stops the groups that were started since the last call. */
async function stopGroups(): Promise<void> {
  for (const group of running.splice(0)) await group.stop();
}

async function start(
  settings: GroupOptions['settings'] = {},
  preload?: string,
): Promise<RunningGroup> {
  const group = await RunningGroup.start({ config, settings, ...(preload && { preload }) });
  running.push(group);
  return group;
}

async function connections(group: RunningGroup, count: number): Promise<readonly Connection[]> {
  const all = await Promise.all(Array.from({ length: count }, () => Connection.open(group.port)));
  open.push(...all);
  return all;
}

function stop(pid: number): void {
  stopped.push(pid);
  process.kill(pid, 'SIGSTOP');
}

/** Stops or kills a process. */
function hit(pid: number, signal: 'SIGSTOP' | 'SIGKILL'): void {
  if (signal === 'SIGSTOP') stop(pid);
  else process.kill(pid, signal);
}

const isDegraded = ({ status, json }: Reply): boolean =>
  status === 503 || json.degraded !== undefined;

/** Returns the lines with this message that were logged since `from`. */
const lines = (group: RunningGroup, msg: string, from = 0) =>
  group.log.slice(from).filter((each) => each.msg === msg);

/** Resolves when no check on these connections is degraded. */
const decided = (all: readonly Connection[], key: string) =>
  vi.waitUntil(async () => {
    const replies = all.map((each) => each.check({ policy: 'throw', key }));
    return !(await Promise.all(replies)).some(isDegraded);
  }, soon);

/** Retries if the worker that has the request is killed. */
async function metrics(group: RunningGroup): Promise<string> {
  for (;;) {
    const [connection] = await connections(group, 1);
    try {
      return (await connection.post('/metrics', [''], 'GET')[0]).text;
    } catch (error) {
      expect(error).toBeInstanceOf(ConnectionClosed);
    }
  }
}

async function decisions(group: RunningGroup): Promise<number> {
  const text = await metrics(group);
  const name = 'sluice_decisions_total{policy="p",outcome="allowed"} ';
  const line = text.split('\n').find((each) => each.startsWith(name));
  return Number(line?.split(' ').at(-1));
}

describe('three workers', { timeout: 120_000 }, () => {
  let group: RunningGroup;
  /** The length of the log when the test began. */
  let from: number;
  beforeAll(async () => {
    group = await start({ workers: 3 }, 'busy-loop.mjs');
  });
  beforeEach(() => {
    from = group.log.length;
  });
  afterAll(stopGroups, 60_000);
  const logged = (msg: string) => lines(group, msg, from);

  test('open connections get responses while the supervisor is stopped', async () => {
    const all = await connections(group, 6);
    const checkAll = () => Promise.all(all.map((each) => each.check({ policy: 'p', key: 'k' })));
    expect((await checkAll()).map(({ status }) => status)).toEqual(Array(6).fill(200));
    stop(group.supervisor.pid!);
    for (let round = 0; round < 20; round++) {
      const replies = await checkAll();
      expect(replies.every((each) => each.json.allowed && !isDegraded(each))).toBe(true);
    }
    group.kill('SIGCONT');
    const pids = await group.pids();
    // The heartbeats were sent in time, and are read now.
    expect((await checkAll()).every(({ json }) => json.allowed)).toBe(true);
    expect(logged('worker not responding, killed')).toEqual([]);
    expect(pids.filter(isAlive)).toHaveLength(3);
  });

  test.each(isFull ? (['SIGKILL', 'SIGSTOP'] as const) : (['SIGKILL'] as const))(
    'metrics do not decrease when a worker gets %s',
    async (signal) => {
      const before = await decisions(group);
      const all = await connections(group, 9);
      await Promise.all(
        all.flatMap((each) => each.post('/v1/check', Array(50).fill({ policy: 'p', key: 'k' }))),
      );
      expect(await decisions(group)).toBe(before + 450);
      const pids = await group.pids();
      // A stopped worker takes seconds to be replaced, so only one is.
      const count = signal === 'SIGSTOP' || !isFull ? 1 : 3;
      for (const pid of pids.slice(0, count)) {
        const replaced = logged('worker replaced').length;
        hit(pid, signal);
        const isReplaced = async (): Promise<boolean> => {
          expect(await decisions(group)).toBe(before + 450);
          return logged('worker replaced').length > replaced;
        };
        await vi.waitUntil(isReplaced, { ...soon, interval: 100 });
        expect(await decisions(group)).toBe(before + 450);
      }
      const [connection] = await connections(group, 1);
      await connection.check({ policy: 'p', key: 'k' });
      expect(await decisions(group)).toBe(before + 451);
    },
  );

  test('new connections get responses while a stopped worker is killed and replaced', async () => {
    const [victim] = await group.pids();
    stop(victim);
    const all = await connections(group, 60);
    const replies = await Promise.all(all.map((each) => each.check({ policy: 'p', key: 'new' })));
    expect(replies.map(({ status }) => status)).toEqual(Array(60).fill(200));
    expect(new Set(replies.map(({ json }) => json.remaining)).size).toBe(60);
    await vi.waitUntil(() => logged('worker replaced').length > 0, soon);
    expect(isAlive(victim)).toBe(false);
    const [{ worker }] = logged('worker replaced');
    expect(logged('worker not responding, killed')).toMatchObject([{ worker, pid: victim }]);
    expect(logged('worker exited')).toEqual([]);
    expect(await group.pids()).toHaveLength(3);
  });

  test('a metrics request and a reload complete when a stopped worker is killed', async () => {
    const [, victim] = await group.pids();
    stop(victim);
    const [text, report] = await Promise.all([
      fetch(`${group.url}/metrics`).then((each) => each.text()),
      group.reload({ policies: [...config.policies, policy('new', 1, '1h')] }),
    ]);
    expect(text).toContain('sluice_decisions_total');
    expect(report.ok).toBe(true);
    expect(isAlive(victim)).toBe(false);
    await vi.waitUntil(() => logged('worker replaced').length > 0, soon);
    const all = await connections(group, 9);
    const replies = await Promise.all(all.map((each) => each.check({ policy: 'new', key: 'k' })));
    expect(replies.filter(({ json }) => json.allowed)).toHaveLength(1);
  });

  // Heartbeats of both are checked by the same code.
  test.each(isFull ? ['worker', 'store process'] : ['worker'])(
    'a %s in an endless loop is killed and replaced',
    async (name) => {
      const victim = name === 'worker' ? (await group.pids())[2] : await group.storePid();
      process.kill(victim, 'SIGUSR2');
      await vi.waitUntil(() => logged(`${name} replaced`).length > 0, soon);
      expect(logged(`${name} not responding, killed`)).toMatchObject([{ pid: victim }]);
      expect(isAlive(victim)).toBe(false);
      await decided(await connections(group, 8), 'loop');
    },
  );

  test.each(isFull ? (['SIGKILL', 'SIGSTOP'] as const) : (['SIGKILL'] as const))(
    'a store process replaced after %s serves a worker that is replaced at the same time',
    async (signal) => {
      const [victim] = await group.pids();
      hit(await group.storePid(), signal);
      process.kill(victim, 'SIGKILL');
      await vi.waitUntil(() => logged('store process replaced').length > 0, soon);
      await vi.waitUntil(() => logged('worker replaced').length > 0, soon);
      const all = await connections(group, 8);
      await decided(all, 'both');
      const bodies = Array(50).fill({ policy: 'throw', key: 'exact', cost: LIMIT / 100 });
      const replies = await Promise.all(all.flatMap((each) => each.post('/v1/check', bodies)));
      expect(replies.filter(({ json }) => json.allowed)).toHaveLength(100);
    },
  );
});

describe('a failed store process', { timeout: 120_000 }, () => {
  let group: RunningGroup;
  beforeAll(async () => {
    group = await start({ workers: 2, deadlineMs: '200ms' });
  });
  afterAll(stopGroups, 60_000);

  test.each([
    ['SIGSTOP', 'store process not responding, killed'],
    ['SIGKILL', 'store process exited'],
  ] as const)(
    'after %s to the store process, policies apply failure actions until it is replaced',
    async (signal, message) => {
      const all = await connections(group, 4);
      await decided(all, signal);
      const from = group.log.length;
      const pid = await group.storePid();
      hit(pid, signal);
      // Each request gets a response, from the store or the fallback.
      for (const name of ['deny', 'allow', 'local', 'throw']) {
        const checks = all.map((each) => each.check({ policy: name, key: signal }));
        for (const reply of await Promise.all(checks)) {
          if (!isDegraded(reply)) continue;
          expect(reply.status).toBe(name === 'throw' ? 503 : 200);
          if (name === 'deny') expect(reply.json.allowed).toBe(false);
          if (name === 'allow') expect(reply.json.allowed).toBe(true);
        }
      }
      await vi.waitUntil(() => lines(group, 'store process replaced', from).length > 0, soon);
      await decided(all, signal);
      expect(lines(group, message, from)).toHaveLength(1);
      expect(lines(group, 'store process replaced', from)).toHaveLength(1);
      // The workers and their connections are still there.
      expect(lines(group, 'worker exited', from)).toEqual([]);
      expect(all.every(({ isClosed }) => !isClosed)).toBe(true);
      expect(await group.storePid()).not.toBe(pid);
    },
  );
});

describe('counters', { timeout: 120_000 }, () => {
  afterEach(stopGroups, 60_000);

  test('metrics of reloads and evictions survive the replacement of all processes', async () => {
    const group = await start({ workers: 2, maxKeys: 1024 });
    const values = async (): Promise<readonly number[]> => {
      const text = await metrics(group);
      return ['sluice_config_reloads_total{result="ok"}', 'sluice_evicted_keys_total'].map((name) =>
        Number(
          text
            .split('\n')
            .find((each) => each.startsWith(`${name} `))
            ?.split(' ')
            .at(-1),
        ),
      );
    };
    const flood = async (): Promise<void> => {
      const [connection] = await connections(group, 1);
      const bodies = Array.from({ length: 3000 }, () => ({ policy: 'p', key: `${Math.random()}` }));
      await Promise.all(connection.post('/v1/check', bodies));
    };
    await group.reload(config);
    await flood();
    const [reloads, evicted] = await values();
    expect(reloads).toBe(1);
    expect(evicted).toBeGreaterThan(0);
    // A heartbeat has reported the evictions to the supervisor.
    await vi.waitUntil(() => lines(group, 'keys evicted').length > 0, soon);
    const before = [...(await group.pids()), await group.storePid()];
    for (const pid of before) process.kill(pid, 'SIGKILL');
    await vi.waitUntil(() => lines(group, 'store process replaced').length === 1, soon);
    await vi.waitUntil(() => lines(group, 'worker replaced').length === 2, soon);
    await flood();
    await group.reload(config);
    const [reloadsAfter, evictedAfter] = await values();
    expect(reloadsAfter).toBe(2);
    expect(evictedAfter).toBeGreaterThan(evicted);
  });
});
