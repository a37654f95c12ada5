/** Redis is killed or stopped under load, with one process and with several. */
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../../../tools/servers/redis.mjs';
import { policy } from '../running.ts';
import { Connection, type Reply } from './connection.ts';
import { RunningGroup } from './running-group.ts';

const soon = { timeout: 30_000, interval: 20 };
const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;

const DEADLINE_MS = 200;
/** Allows for a busy machine. */
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

/** Checks all policies in turn on all connections, without a pause. */
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

  /** Returns the replies since the last call. */
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

/** Expects the failure action of each policy in the degraded replies. */
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
  // All processes together admit at most the limit.
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

  test(`with ${workers} process(es), Redis admits concurrent checks up to the limit`, async () => {
    await allDecided('before');
    const checks = open.flatMap((each) =>
      each.post('/v1/check', Array(20).fill({ policy: 'throw', key: 'hot' })),
    );
    const replies = await Promise.all(checks);
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
    ['killed', () => redis.kill(), () => redis.restart()],
    ['stopped', () => redis.pause(), () => redis.resume()],
  ])(
    `with ${workers} process(es), failure actions apply in time while Redis is %s`,
    {
      timeout: 120_000,
    },
    async (how, stop, start) => {
      await allDecided(`${how} before`);
      let key = `${how} up`;
      const load = new Load(open, () => key);
      await vi.waitUntil(() => load.take().some((each) => !isDegraded(each)), soon);
      await stop();
      key = `${how} during`;
      const during: Timed[] = [];
      const isOutage = (): boolean => {
        during.push(...load.take());
        return during.filter((each) => isDegraded(each) && each.json.key === key).length > 500;
      };
      await vi.waitUntil(isOutage, soon);
      key = `${how} ending`;
      await start();
      await allDecided(`${how} after`);
      await load.stop();
      const after = load.take();
      expectOutcomes(during, `${how} during`);
      const longestMs = Math.max(...[...during, ...after].map(({ tookMs }) => tookMs));
      expect(longestMs).toBeLessThan(LATEST_MS);
      // No worker was restarted.
      expect(group.log.filter(({ msg }) => msg === 'worker exited')).toEqual([]);
    },
  );
});
