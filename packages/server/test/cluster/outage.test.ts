/** Redis dies, or says nothing any more, under load: with one process and with several. */
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { policy } from '../running.ts';
import { Connection, type Reply } from './connection.ts';
import { RunningGroup } from './running-group.ts';

const soon = { timeout: 30_000, interval: 20 };
const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;

const DEADLINE_MS = 200;
/** A machine that does other things too may be late, but not by orders of magnitude. */
const LATEST_MS = 25 * DEADLINE_MS;
const CONNECTIONS = 9;
const LIMIT = 12;

const ACTIONS = ['allow', 'deny', 'local', 'throw'] as const;
type Action = (typeof ACTIONS)[number];

const config = {
  policies: ACTIONS.map((onFailure) => policy(onFailure, LIMIT, '1h', { onFailure })),
};

beforeAll(() => {
  execFileSync(ensureServices, ['redis']);
}, 300_000);

interface Timed extends Reply {
  readonly action: Action;
  readonly tookMs: number;
}

/** Asks on all connections, without a pause, under all policies in turn. */
class Load {
  #replies: Timed[] = [];
  #isOver = false;
  readonly #running: Promise<unknown>;

  constructor(
    open: readonly Connection[],
    private readonly keyOf: () => string,
  ) {
    this.#running = Promise.all(open.map((each) => this.#run(each)));
  }

  async #run(connection: Connection): Promise<void> {
    while (!this.#isOver) {
      for (const action of ACTIONS) {
        const startMs = performance.now();
        const reply = await connection.check({ policy: action, key: this.keyOf() });
        this.#replies.push({ ...reply, action, tookMs: performance.now() - startMs });
      }
    }
  }

  /** What has been answered since it was last asked for. */
  take(): readonly Timed[] {
    const replies = this.#replies;
    this.#replies = [];
    return replies;
  }

  stop(): Promise<unknown> {
    this.#isOver = true;
    return this.#running;
  }
}

const isDegraded = ({ status, json }: Timed): boolean =>
  status === 503 || json.degraded !== undefined;

/** What each policy says when the store is away, of replies that came while it was. */
function expectOutcomes(replies: readonly Timed[], key: string): void {
  const of = (action: Action): readonly Timed[] => {
    const found = replies.filter((each) => each.action === action && isDegraded(each));
    expect(found.length).toBeGreaterThan(0);
    return found;
  };
  for (const { status, json } of of('allow')) {
    expect([status, json.allowed, json.degraded.action]).toEqual([200, true, 'allow']);
  }
  for (const { status, json } of of('deny')) {
    expect([status, json.allowed, json.degraded.action]).toEqual([200, false, 'deny']);
  }
  for (const { status, json } of of('throw')) {
    expect([status, json.code]).toEqual([503, 'ERR_STORE_UNAVAILABLE']);
  }
  for (const { json } of of('local')) expect(json.degraded.action).toBe('local');
  const local = of('local').filter(({ json }) => json.allowed && json.key === key);
  expect(local.length).toBeGreaterThan(0);
  // All processes together admit no more than one would.
  expect(local.length).toBeLessThanOrEqual(LIMIT);
}

describe.each([1, 3])('on Redis, with %i process(es)', (workers) => {
  let redis: RedisServer;
  let group: RunningGroup;
  let open: Connection[] = [];
  beforeAll(async () => {
    redis = await startRedis();
    const settings = { workers, store: redis.url, deadlineMs: DEADLINE_MS };
    group = await RunningGroup.start({ config, settings });
    open = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)),
    );
  }, 60_000);
  afterAll(async () => {
    for (const each of open) each.close();
    await group?.stop();
    await redis?.stop();
  }, 60_000);

  test('limits hold while Redis is there', async () => {
    await allDecided('before');
    const asked = open.flatMap((each) =>
      each.post('/v1/check', Array(20).fill({ policy: 'throw', key: 'hot' })),
    );
    const replies = await Promise.all(asked);
    expect(replies.filter(({ json }) => json.allowed)).toHaveLength(LIMIT);
  });

  /** Resolves when Redis decides for all connections, hence for all processes. */
  async function allDecided(key: string): Promise<void> {
    const isDecided = async (connection: Connection): Promise<boolean> => {
      const [reply] = connection.post('/v1/peek', [{ policy: 'throw', key }]);
      return (await reply).status === 200;
    };
    await vi.waitUntil(async () => (await Promise.all(open.map(isDecided))).every(Boolean), soon);
  }

  test.each([
    ['dies', () => redis.kill(), () => redis.restart()],
    ['says nothing', () => redis.pause(), () => redis.resume()],
  ])(
    'when it %s the policies say what happens, in time, until it is back',
    {
      timeout: 120_000,
    },
    async (how, stop, start) => {
      await allDecided(`${how} before`);
      let key = `${how} up`;
      const load = new Load(open, () => key);
      await vi.waitUntil(() => load.take().some((each) => !isDegraded(each)), soon);
      await stop();
      key = `${how} away`;
      const away: Timed[] = [];
      const isAway = (): boolean => {
        away.push(...load.take());
        return away.filter((each) => isDegraded(each) && each.json.key === key).length > 500;
      };
      await vi.waitUntil(isAway, soon);
      key = `${how} back`;
      await start();
      await allDecided(`${how} after`);
      await load.stop();
      const back = load.take();
      expectOutcomes(away, `${how} away`);
      const longestMs = Math.max(...[...away, ...back].map(({ tookMs }) => tookMs));
      expect(longestMs).toBeLessThan(LATEST_MS);
      // Nobody had to be restarted for that.
      expect(group.log.filter(({ msg }) => msg === 'worker exited')).toEqual([]);
    },
  );
});
