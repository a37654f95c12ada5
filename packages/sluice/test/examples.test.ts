/** Every example, run as its reader runs it, does what its comment promises. Needs a build. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, describe, expect, it } from 'vitest';
import { startRedis } from '../../../tools/servers/redis.mjs';
import { createLimiter } from '../src/index.ts';
import { redisStore } from '../src/stores/redis/index.ts';

const examples = new URL('../../../examples/', import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), 'sluice-examples-'));
const children = new Set<ChildProcess>();

afterAll(() => {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true });
});

interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<number | null>;
}

function run(name: string, env: Readonly<Record<string, string>>): Run {
  const options = { cwd: folder, env: { ...process.env, ...env } };
  const child = spawn(process.execPath, [join(examples, name, 'main.mjs')], options);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  children.add(child);
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => {
      children.delete(child);
      resolve(code);
    });
  });
  return { child, output: () => output, ended };
}

interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Another address of this machine to come from. */
  readonly from?: string;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Ask = (path?: string, asked?: Asked) => Promise<Answer>;

function askAt(url: string, { method, headers, body, from }: Asked): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const options = {
    method: method ?? (text === undefined ? 'GET' : 'POST'),
    headers: { ...(text !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(from !== undefined && { localAddress: from }),
    agent: false,
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (answer) => {
      let got = '';
      answer.setEncoding('utf8').on('data', (part) => {
        got += part;
      });
      answer.on('end', () =>
        resolve({ status: answer.statusCode!, headers: answer.headers, body: got }),
      );
    });
    sent.on('error', reject).end(text);
  });
}

/** Runs an example that serves, on a free port, for as long as `use` takes. */
async function serving(name: string, use: (ask: Ask) => Promise<void>): Promise<void> {
  const { child, output, ended } = run(name, { PORT: '0' });
  let over = false;
  ended.then(() => {
    over = true;
  });
  while (!output().includes('\n') && !over) await sleep(10);
  const [, url] = output().match(/^Listening on (http:\/\/127\.0\.0\.1:\d+)\n$/) ?? [];
  if (url === undefined) throw new Error(`${name} printed ${output()}`);
  try {
    await use((path = '/', asked = {}) => askAt(url + path, asked));
    expect(output(), 'nothing else is printed').toBe(`Listening on ${url}\n`);
  } finally {
    child.kill();
    await ended;
  }
}

async function statuses(count: number, ask: () => Promise<Answer>): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < count; i++) all.push((await ask()).status);
  return all;
}

const remainingOf = ({ headers }: Answer): number =>
  Number(/r=(\d+)/.exec(String(headers.ratelimit))?.[1]);

/** Five pass and say what is left, the sixth is refused and told when to come back. */
async function passesFive(ask: Ask): Promise<void> {
  for (let left = 4; left >= 0; left--) {
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body)).toMatchObject({ hello: 'world' });
    expect(answer.headers['ratelimit-policy']).toBe('"default";q=5;w=10');
    expect(remainingOf(answer)).toBe(left);
    expect(answer.headers).not.toHaveProperty('retry-after');
  }
  const refused = await ask();
  expect(refused.status).toBe(429);
  expect(refused.headers['content-type']).toMatch(/^application\/problem\+json/);
  expect(JSON.parse(refused.body)).toMatchObject({ 'violated-policies': ['default'] });
  const wait = Number(refused.headers['retry-after']);
  expect(wait).toBeGreaterThan(0);
  expect(wait).toBeLessThanOrEqual(10);
  expect(refused.headers.ratelimit).toBe(`"default";r=0;t=${wait}`);
}

const usual = (name: string) => () =>
  serving(name, async (ask) => {
    expect(await statuses(3, () => ask('/export'))).toEqual([200, 200, 429]);
    expect(JSON.parse((await ask('/export')).body)).toMatchObject({
      'violated-policies': ['export'],
    });
    expect(await statuses(7, () => ask('/health'))).toEqual(Array(7).fill(200));
  });

const login = (user: string, password: string, from?: string): [string, Asked] => [
  '/login',
  { body: { user, password }, ...(from !== undefined && { from }) },
];

/** By region: the pages that are done, and what was found but not yet listed. */
type Progress = Record<string, { page: number; found: string[] | null }>;

const REGIONS = ['BR DE', 'FR GB', 'IN JP', 'MX US'];
const PAGES = 15;
const WHOLE_JOB = 8 * PAGES * 101;

const progressFile = (part: number): string => join(folder, `progress-${part}.json`);

/** What all that is in a progress file has cost, counted without the limiter. */
function unitsIn(file: string): number {
  const progress: Progress = JSON.parse(readFileSync(file, 'utf8'));
  const units = Object.values(progress).map(({ page, found }) => page * 101 + (found ? 100 : 0));
  return units.reduce((sum, each) => sum + each);
}

const unitsDone = (): number =>
  REGIONS.map((_, part) => unitsIn(progressFile(part))).reduce((sum, each) => sum + each);

const spentBy = (output: string): number => Number(/^Spent (\d+) units/.exec(output)?.[1]);

/** Runs a job for each part of the regions at once; what they spent, by their own account. */
async function ingest(url: string): Promise<{ spent: number; outputs: string[] }> {
  const runs = REGIONS.map((regions, part) =>
    run('ingestion', { REDIS_URL: url, REGIONS: regions, PROGRESS: progressFile(part) }),
  );
  const codes = await Promise.all(runs.map(({ ended }) => ended));
  const outputs = runs.map(({ output }) => output());
  expect({ codes, outputs }).toMatchObject({ codes: [0, 0, 0, 0] });
  return { spent: outputs.map(spentBy).reduce((sum, each) => sum + each), outputs };
}

const tests: Readonly<Record<string, Readonly<Record<string, () => Promise<void>>>>> = {
  express: {
    'five pass, the sixth is refused': () => serving('express', passesFive),
    'a route has a limit of its own, the health check none': usual('express'),
  },
  fastify: {
    'five pass, the sixth is refused': () => serving('fastify', passesFive),
    'a route has a limit of its own, the health check none': usual('fastify'),
  },
  hono: {
    'five pass, the sixth is refused': () => serving('hono', passesFive),
    'a route has a limit of its own, the health check none': usual('hono'),
  },
  koa: {
    'five pass, the sixth is refused; the health check always passes': () =>
      serving('koa', async (ask) => {
        expect(await statuses(7, () => ask('/health'))).toEqual(Array(7).fill(200));
        await passesFive(ask);
      }),
  },
  nest: {
    'five pass, the sixth is refused': () => serving('nest', passesFive),
    'a route has a limit of its own, the health check none': usual('nest'),
  },
  'fetch-handler': {
    'five pass, the sixth is refused, and writing shares the limit': () =>
      serving('fetch-handler', async (ask) => {
        await passesFive(ask);
        expect((await ask('/', { body: 'x' })).status).toBe(429);
        // Another client; what it says about its own address is not believed.
        const other = { from: '127.0.0.2', headers: { 'x-real-ip': '9.9.9.9' }, body: 'x' };
        expect((await ask('/', other)).body).toBe('{"got":"\\"x\\""}');
        const remaining = remainingOf(await ask('/', { from: '127.0.0.2' }));
        expect(remaining).toBe(3);
      }),
  },
  login: {
    'right passwords never count, wrong ones do, for the account': () =>
      serving('login', async (ask) => {
        const right = () => ask(...login('ada', 'lovelace'));
        const wrong = () => ask(...login(' Ada ', 'x'));
        expect(await statuses(12, right)).toEqual(Array(12).fill(200));
        expect(await statuses(4, wrong)).toEqual(Array(4).fill(401));
        expect(await statuses(3, right)).toEqual(Array(3).fill(200));
        expect(await statuses(2, wrong)).toEqual([401, 429]);
        // From anywhere, and with the right password too.
        const refused = await ask(...login('ada', 'lovelace', '127.0.0.2'));
        expect(refused.status).toBe(429);
        const { error, retryAt } = JSON.parse(refused.body);
        expect(error).toBe('Too many failed logins. Try again in 15 minutes.');
        const waitMs = Date.parse(retryAt) - Date.now();
        expect(waitMs).toBeGreaterThan(14 * 60_000);
        expect(Math.abs(Number(refused.headers['retry-after']) - waitMs / 1000)).toBeLessThan(5);
        expect((await ask(...login('grace', 'hopper'))).status).toBe(200);
        // Nobody gets in without a name, and a name that is too long is just a wrong one.
        expect((await ask('/login', { body: {} })).status).toBe(401);
        expect((await ask(...login('a'.repeat(5000), 'x'))).status).toBe(401);
      }),
    'wrong passwords count for the address, whatever the accounts': () =>
      serving('login', async (ask) => {
        let place = 0;
        const guess = () => ask(...login(`user-${place++}`, 'x'));
        expect(await statuses(11, guess)).toEqual([...Array(10).fill(401), 429]);
        expect((await ask(...login('ada', 'lovelace'))).status).toBe(429);
        expect((await ask(...login('ada', 'lovelace', '127.0.0.2'))).status).toBe(200);
      }),
    'many wrong ones at the same time do not slip through': () =>
      serving('login', async (ask) => {
        const all = await Promise.all(Array.from({ length: 30 }, () => ask(...login('ada', 'x'))));
        expect(all.filter(({ status }) => status === 401)).toHaveLength(5);
      }),
  },
  ingestion: {
    'jobs share one quota, stop cleanly, and go on where they were': async () => {
      const server = await startRedis();
      const client = new Redis(server.url);
      const policies = { quota: { limit: 9500, window: '1d' } } as const;
      // Patient, so that a busy machine is not taken for a Redis that is away.
      const store = redisStore(client, { deadlineMs: 5000, onFailure: 'throw', onWarning() {} });
      const limiter = createLimiter({ policies, store });
      const held = async () => 9500 - (await limiter.peek('quota', 'youtube')).remaining;
      try {
        const first = await ingest(server.url);
        expect(first.spent).toBeLessThanOrEqual(9500);
        // They stop when the dearest call does not fit any more, not before.
        expect(first.spent).toBeGreaterThan(9400);
        expect([unitsDone(), await held()]).toEqual([first.spent, first.spent]);
        expect(first.outputs.join()).toMatch(/The quota is spent: \d+ pages are done, \d+ left/);

        // On the same day there is nothing to be had, but what is done stays done.
        const second = await ingest(server.url);
        expect(first.spent + second.spent).toBeLessThanOrEqual(9500);
        expect(unitsDone()).toBe(first.spent + second.spent);

        // The next day.
        await limiter.reset('quota', 'youtube');
        const third = await ingest(server.url);
        expect(first.spent + second.spent + third.spent).toBe(WHOLE_JOB);
        expect(await held()).toBe(third.spent);
        expect(third.outputs.every((text) => text.includes('All 30 pages are done.'))).toBe(true);
      } finally {
        client.disconnect();
        await server.stop();
      }
    },
    'a job that is killed goes on from its file; alone it has the quota in memory': async () => {
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
    'a Redis that cannot be reached is a failure, not the end of the quota': async () => {
      const { ended, output } = run('ingestion', { REDIS_URL: 'redis://127.0.0.1:1' });
      expect(await ended).toBe(1);
      expect(output()).not.toContain('quota is spent');
    },
  },
  'llm-tokens': {
    'an estimate is reserved, the real number is settled, a failure costs nothing': () =>
      serving('llm-tokens', async (ask) => {
        const prompt = 'a'.repeat(400);
        const asked = { body: { prompt }, headers: { 'x-api-key': 'ada' } };
        const first = await ask('/ask', asked);
        const { reserved, used } = JSON.parse(first.body);
        expect({ reserved, left: remainingOf(first) }).toEqual({ reserved: 4100, left: 5900 });
        expect(used).toBe(203);

        const failed = await ask('/ask', { ...asked, body: { prompt, fail: true } });
        expect([failed.status, remainingOf(failed)]).toEqual([502, 10_000 - used - 4100]);
        const third = await ask('/ask', asked);
        expect(remainingOf(third)).toBe(10_000 - used - 4100);

        // Two estimates fit beside what was used, three do not.
        const rest = await Promise.all(Array.from({ length: 3 }, () => ask('/ask', asked)));
        expect(rest.map(({ status }) => status).sort()).toEqual([200, 200, 429]);
        const refused = rest.find(({ status }) => status === 429)!;
        expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
        // Now that they are settled there is room again, and others never felt it.
        expect(remainingOf(await ask('/ask', asked))).toBe(10_000 - 4 * used - 4100);
        const grace = { body: { prompt }, headers: { 'x-api-key': 'grace' } };
        expect(remainingOf(await ask('/ask', grace))).toBe(5900);
        expect((await ask('/ask', { ...asked, headers: {} })).status).toBe(401);
        const long = { ...asked, body: { prompt: 'a'.repeat(40_000) } };
        expect((await ask('/ask', long)).status).toBe(413);
      }),
  },
};

for (const [name, promises] of Object.entries(tests)) {
  describe.concurrent(`examples/${name}`, () => {
    for (const [promise, check] of Object.entries(promises)) it(promise, check);
  });
}

it('every example is tested', () => {
  // Those of the proxies are configurations, which the tests of the server start.
  const folders = readdirSync(examples, { withFileTypes: true }).filter(
    (each) => each.isDirectory() && each.name !== 'proxies',
  );
  expect(folders.map(({ name }) => name).sort()).toEqual(Object.keys(tests).sort());
});
