/** Runs every example as a user does and checks what its comment states. Needs a build. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../../tools/servers/redis.mjs';
import { createLimiter } from '../src/index.ts';
import { redisStore } from '../src/stores/redis/index.ts';
import {
  examples,
  folder,
  type HttpResponse,
  type RequestOptions,
  run,
  type Send,
  serving,
  statuses,
} from './running-examples.ts';

const remainingOf = ({ headers }: HttpResponse): number =>
  Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]);

/** Expects five admitted requests with their remaining, and a sixth that gets 429. */
async function expectLimitOfFive(send: Send): Promise<void> {
  for (let remaining = 4; remaining >= 0; remaining--) {
    const response = await send();
    expect(response.status).toBe(200);
    expect(JSON.parse(response.body)).toMatchObject({ hello: 'world' });
    expect(response.headers['ratelimit-policy']).toBe('"default";q=5;w=10');
    expect(remainingOf(response)).toBe(remaining);
    expect(response.headers).not.toHaveProperty('retry-after');
  }
  const denied = await send();
  expect(denied.status).toBe(429);
  expect(denied.headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(JSON.parse(denied.body)).toMatchObject({ 'violated-policies': ['default'] });
  const wait = Number(denied.headers['retry-after']);
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(10);
  expect(denied.headers.ratelimit).toBe(`"default";r=0;t=${wait}`);
}

/** Expects the limits of two clients, in one process. */
const expectAllLimits = (name: string) => () =>
  serving(name, async (send) => {
    await expectLimitOfFive(send);
    const other = (path: string) => send(path, { from: '127.0.0.2' });
    expect(await statuses(3, () => other('/export'))).toEqual([200, 200, 429]);
    expect(JSON.parse((await other('/export')).body)).toMatchObject({
      'violated-policies': ['export'],
    });
    expect(await statuses(7, () => send('/health'))).toEqual(Array(7).fill(200));
  });

const ALL_LIMITS =
  'the sixth request is denied; /export has its own limit, the health check has none';

const login = (user: string, password: string, from?: string): [string, RequestOptions] => [
  '/login',
  { body: { user, password }, ...(from !== undefined && { from }) },
];

/** By region: the number of completed pages, and results that have not been listed yet. */
type Progress = Record<string, { page: number; found: string[] | null }>;

const REGIONS = ['BR DE', 'FR GB', 'IN JP', 'MX US'];
const PAGES = 15;
const TOTAL_UNITS = 8 * PAGES * 101;

const progressFile = (part: number): string => join(folder, `progress-${part}.json`);

/** Returns the cost of the work in a progress file, computed without the limiter. */
function unitsIn(file: string): number {
  const progress: Progress = JSON.parse(readFileSync(file, 'utf8'));
  const units = Object.values(progress).map(({ page, found }) => page * 101 + (found ? 100 : 0));
  return units.reduce((sum, each) => sum + each);
}

const unitsDone = (): number =>
  REGIONS.map((_, part) => unitsIn(progressFile(part))).reduce((sum, each) => sum + each);

const spentBy = (output: string): number => Number(/^Spent (\d+) units/.exec(output)?.[1]);

/** Runs one job per group of regions concurrently. Returns the units that they print. */
async function ingest(url: string): Promise<{ spent: number; outputs: string[] }> {
  const runs = REGIONS.map((regions, part) =>
    run('ingestion', { REDIS_URL: url, REGIONS: regions, PROGRESS: progressFile(part) }),
  );
  const codes = await Promise.all(runs.map(({ ended }) => ended));
  const outputs = runs.map(({ output }) => output());
  expect({ codes, outputs }).toMatchObject({ codes: [0, 0, 0, 0] });
  return { spent: outputs.map(spentBy).reduce((sum, each) => sum + each), outputs };
}

/** Tested by recipes.test.ts. */
const RECIPES = [
  ...['aws-lambda', 'cloudflare-workers', 'graphql', 'nextjs', 'socket-io', 'sveltekit'],
  ...['trpc', 'ws'],
];

const tests: Readonly<Record<string, Readonly<Record<string, () => Promise<void>>>>> = {
  express: {
    [ALL_LIMITS]: expectAllLimits('express'),
  },
  fastify: {
    [ALL_LIMITS]: expectAllLimits('fastify'),
  },
  hono: {
    [ALL_LIMITS]: expectAllLimits('hono'),
  },
  koa: {
    'the sixth request is denied; the health check has no limit': () =>
      serving('koa', async (send) => {
        expect(await statuses(7, () => send('/health'))).toEqual(Array(7).fill(200));
        await expectLimitOfFive(send);
      }),
  },
  nest: {
    [ALL_LIMITS]: expectAllLimits('nest'),
  },
  'fetch-handler': {
    'the sixth request is denied; POST shares the limit of GET': () =>
      serving('fetch-handler', async (send) => {
        await expectLimitOfFive(send);
        expect((await send('/', { body: 'x' })).status).toBe(429);
        // Another client, whose own statement of its address is ignored.
        const other = { from: '127.0.0.2', headers: { 'x-real-ip': '9.9.9.9' }, body: 'x' };
        expect((await send('/', other)).body).toBe('{"got":"\\"x\\""}');
        const remaining = remainingOf(await send('/', { from: '127.0.0.2' }));
        expect(remaining).toBe(3);
      }),
  },
  login: {
    'wrong passwords count for the account, right passwords do not': () =>
      serving('login', async (send) => {
        const right = () => send(...login('ada', 'lovelace'));
        const wrong = () => send(...login(' Ada ', 'x'));
        expect(await statuses(12, right)).toEqual(Array(12).fill(200));
        expect(await statuses(4, wrong)).toEqual(Array(4).fill(401));
        expect(await statuses(3, right)).toEqual(Array(3).fill(200));
        expect(await statuses(2, wrong)).toEqual([401, 429]);
        // From another address, and with the right password.
        const denied = await send(...login('ada', 'lovelace', '127.0.0.2'));
        expect(denied.status).toBe(429);
        const { error, retryAt } = JSON.parse(denied.body);
        expect(error).toBe('Too many failed logins. Try again in 15 minutes.');
        const waitMs = Date.parse(retryAt) - Date.now();
        expect(waitMs).toBeGreaterThan(14 * 60_000);
        expect(Math.abs(Number(denied.headers['retry-after']) - waitMs / 1000)).toBeLessThan(5);
        expect((await send(...login('grace', 'hopper'))).status).toBe(200);
        // A missing name and one that is too long are wrong passwords.
        expect((await send('/login', { body: {} })).status).toBe(401);
        expect((await send(...login('a'.repeat(5000), 'x'))).status).toBe(401);
      }),
    'wrong passwords for different accounts count for the address': () =>
      serving('login', async (send) => {
        let place = 0;
        const guess = () => send(...login(`user-${place++}`, 'x'));
        expect(await statuses(11, guess)).toEqual([...Array(10).fill(401), 429]);
        expect((await send(...login('ada', 'lovelace'))).status).toBe(429);
        expect((await send(...login('ada', 'lovelace', '127.0.0.2'))).status).toBe(200);
      }),
    'concurrent wrong passwords cannot exceed the limit': () =>
      serving('login', async (send) => {
        const all = await Promise.all(Array.from({ length: 30 }, () => send(...login('ada', 'x'))));
        expect(all.filter(({ status }) => status === 401)).toHaveLength(5);
      }),
  },
  'login-protection': {
    'an attacker who blocks an account does not block a known device of its owner': () =>
      serving('login-protection', async (send) => {
        const [path, right] = login('ada', 'lovelace');
        const first = await send(path, right);
        expect(first.status).toBe(200);
        const [cookie] = String(first.headers['set-cookie']).split(';');
        const attack = () => send(...login(' Ada ', 'x', '127.0.0.2'));
        expect(await statuses(6, attack)).toEqual([...Array(5).fill(401), 429]);
        // Without the cookie, the right password does not help either, from any address.
        const denied = await send(path, { ...right, from: '127.0.0.3' });
        expect(denied.status).toBe(429);
        const wait = Number(denied.headers['retry-after']);
        expect(wait).toBeGreaterThan(890);
        expect(wait).toBeLessThanOrEqual(900);
        const known = await send(path, { ...right, headers: { cookie } });
        expect([known.status, known.headers['set-cookie']]).toEqual([200, undefined]);
      }),
    'the cookie of a device allows five wrong passwords, and only for its account': () =>
      serving('login-protection', async (send) => {
        const first = await send(...login('ada', 'lovelace'));
        const [cookie] = String(first.headers['set-cookie']).split(';');
        const guess = (user: string) => {
          const [path, options] = login(user, 'x');
          return send(path, { ...options, headers: { cookie } });
        };
        expect(await statuses(6, () => guess('ada'))).toEqual([...Array(5).fill(401), 429]);
        // The device is blocked, the account is not.
        expect((await send(...login('ada', 'lovelace'))).status).toBe(200);
        // For another account the cookie is ignored, so the account is blocked.
        expect(await statuses(6, () => guess('grace'))).toEqual([...Array(5).fill(401), 429]);
        expect((await send(...login('grace', 'hopper', '127.0.0.2'))).status).toBe(429);
      }),
    'a forged cookie is ignored': () =>
      serving('login-protection', async (send) => {
        const [path, options] = login('ada', 'x');
        const guess = () => {
          const device = Math.random().toString(16).slice(2).padEnd(32, '0').slice(0, 32);
          const headers = { cookie: `device=${device}.${'0'.repeat(64)}` };
          return send(path, { ...options, headers });
        };
        expect(await statuses(6, guess)).toEqual([...Array(5).fill(401), 429]);
      }),
    'wrong passwords for different accounts block the address': () =>
      serving('login-protection', async (send) => {
        let place = 0;
        const guess = () => send(...login(`user-${place++}`, 'x'));
        expect(await statuses(21, guess)).toEqual([...Array(20).fill(401), 429]);
        const denied = await send(...login('ada', 'lovelace'));
        expect(Number(denied.headers['retry-after'])).toBeGreaterThan(3500);
        expect((await send(...login('ada', 'lovelace', '127.0.0.2'))).status).toBe(200);
      }),
  },
  ingestion: {
    'concurrent jobs share one quota, stop when it is spent and resume later': async () => {
      const server = await startRedis();
      const client = new Redis(server.url);
      const policies = { quota: { limit: 9500, window: '1d' } } as const;
      // A long deadline, so that a busy machine does not look like an unavailable Redis.
      const store = redisStore(client, { deadlineMs: 5000, onFailure: 'throw', onWarning() {} });
      const limiter = createLimiter({ policies, store });
      const charged = async () => 9500 - (await limiter.peek('quota', 'youtube')).remaining;
      try {
        const first = await ingest(server.url);
        expect(first.spent).toBeLessThanOrEqual(9500);
        // They stop only when a call of the highest cost, 100, no longer fits.
        expect(first.spent).toBeGreaterThan(9400);
        expect([unitsDone(), await charged()]).toEqual([first.spent, first.spent]);
        expect(first.outputs.join()).toMatch(/The quota is spent: \d+ pages are done, \d+ left/);

        // On the same day there is no quota, and completed work is kept.
        const second = await ingest(server.url);
        expect(first.spent + second.spent).toBeLessThanOrEqual(9500);
        expect(unitsDone()).toBe(first.spent + second.spent);

        // The next day.
        await limiter.reset('quota', 'youtube');
        const third = await ingest(server.url);
        expect(first.spent + second.spent + third.spent).toBe(TOTAL_UNITS);
        expect(await charged()).toBe(third.spent);
        expect(third.outputs.every((text) => text.includes('All 30 pages are done.'))).toBe(true);
      } finally {
        client.disconnect();
        await server.stop();
      }
    },
    'a killed job resumes from its progress file, without Redis': async () => {
      const PROGRESS = join(folder, 'progress-killed.json');
      const killed = run('ingestion', { PROGRESS, REDIS_URL: '' });
      while (!statSync(PROGRESS, { throwIfNoEntry: false })) await sleep(1);
      killed.child.kill('SIGKILL');
      await killed.ended;
      const before = unitsIn(PROGRESS);
      expect(before).toBeGreaterThan(0);
      const { ended, output } = run('ingestion', { PROGRESS, REDIS_URL: '' });
      expect(await ended).toBe(0);
      expect(spentBy(output())).toBeGreaterThan(9400);
      expect(unitsIn(PROGRESS)).toBe(before + spentBy(output()));
    },
    'an unreachable Redis is an error and not a spent quota': async () => {
      const { ended, output } = run('ingestion', { REDIS_URL: 'redis://127.0.0.1:1' });
      expect(await ended).toBe(1);
      expect(output()).not.toContain('quota is spent');
    },
  },
  'llm-client': {
    'all calls are sent, although they reserve more than the limit in total': async () => {
      const { ended, output } = run('llm-client', { MODEL_URL: '' });
      expect(await ended).toBe(0);
      const lines = output().trim().split('\n');
      expect(lines.slice(0, 12)).toEqual(
        Array.from({ length: 12 }, (_, number) => `${number} times ${number} is ${number ** 2}.`),
      );
      // 14 input and 5 output tokens each, for 0.15 and 0.6 dollars per million.
      expect(lines[12]).toBe('Reserved 7852 tokens, used 228, for 0.000072 dollars');
    },
  },
  'llm-tokens': {
    'calls reserve an estimate, settle the actual tokens and are refunded if they fail': () =>
      serving('llm-tokens', async (send) => {
        const prompt = 'a'.repeat(400);
        const call = { body: { prompt }, headers: { 'x-api-key': 'ada' } };
        const first = await send('/ask', call);
        const { reserved, used } = JSON.parse(first.body);
        expect({ reserved, remaining: remainingOf(first) }).toEqual({
          reserved: 4100,
          remaining: 5900,
        });
        expect(used).toBe(203);

        const failed = await send('/ask', { ...call, body: { prompt, fail: true } });
        expect([failed.status, remainingOf(failed)]).toEqual([502, 10_000 - used - 4100]);
        const third = await send('/ask', call);
        expect(remainingOf(third)).toBe(10_000 - used - 4100);

        // Two estimates fit into the remaining tokens, three do not.
        const rest = await Promise.all(Array.from({ length: 3 }, () => send('/ask', call)));
        expect(rest.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
        const denied = rest.find(({ status }) => status === 429)!;
        expect(Number(denied.headers['retry-after'])).toBeGreaterThan(0);
        // After the settlements there is capacity again. Other keys are not affected.
        expect(remainingOf(await send('/ask', call))).toBe(10_000 - 4 * used - 4100);
        const grace = { body: { prompt }, headers: { 'x-api-key': 'grace' } };
        expect(remainingOf(await send('/ask', grace))).toBe(5900);
        expect((await send('/ask', { ...call, headers: {} })).status).toBe(401);
        const long = { ...call, body: { prompt: 'a'.repeat(40_000) } };
        expect((await send('/ask', long)).status).toBe(413);
      }),
  },
};

for (const [name, checks] of Object.entries(tests)) {
  describe.concurrent(`examples/${name}`, () => {
    for (const [statement, check] of Object.entries(checks)) {
      it(`examples/${name}: ${statement}`, check);
    }
  });
}

it('every example is tested', () => {
  // The tests of the server run the proxy configurations.
  const folders = readdirSync(examples).filter((name) => name !== 'proxies');
  const tested = [...Object.keys(tests), ...RECIPES];
  expect(folders.sort()).toEqual(tested.sort());
});
