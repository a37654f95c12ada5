/** Runs the same app with express-rate-limit and Sluice. Only the steps advance the clock. */
import type { AddressInfo } from 'node:net';
import express, { type Request, type RequestHandler, type Response } from 'express';
import { MemoryStore as TheirStore, rateLimit as theirs } from 'express-rate-limit';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { rateLimit as ours } from '../../src/adapters/express.ts';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { memoryStore, type Store } from '../../src/index.ts';

const START_MS = 1_745_000_100_000;

interface Step {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Time of the request after the start. */
  readonly atMs?: number;
}

interface RecordedResponse {
  readonly status: number;
  readonly body: string;
  /** Rate-limit headers and Content-Type. */
  readonly headers: Readonly<Record<string, string>>;
}

type Options = Readonly<Record<string, unknown>>;
type Middleware = RequestHandler & { resetKey(key: string): unknown };
type Library = (options: never) => unknown;

/** The limit of most tests, with the same message in both libraries. */
const TWO: Options = { windowMs: 60_000, limit: 2, message: 'Slow down.' };

const times = (count: number, step: Step = {}): Step[] => Array.from({ length: count }, () => step);

/** An app that responds with the status in `x-status` and the request's rate-limit property. */
function appOf(limit: Middleware, property: string): express.Express {
  const app = express();
  app.get('/reset', async (_request, response) => {
    await limit.resetKey('127.0.0.1');
    response.send('new');
  });
  app.use(limit);
  app.use((request: Request, response: Response) => {
    const info = (request as unknown as Record<string, Record<string, unknown>>)[property];
    const { limit: most, used, remaining, resetTime, key } = info ?? {};
    const status = Number(request.get('x-status') ?? 200);
    response.status(status).json({ most, used, remaining, resetTime, key });
  });
  type Failure = Error & { status?: number };
  app.use((error: Failure, _request: Request, response: Response, _next: unknown) => {
    response.status(error.status ?? 500).send(error.message);
  });
  return app;
}

async function send(port: number, { path = '/', headers = {} }: Step): Promise<RecordedResponse> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers });
  const selected = [...response.headers].filter(([name]) =>
    /ratelimit|retry|content-type/.test(name),
  );
  return {
    status: response.status,
    body: await response.text(),
    headers: Object.fromEntries(selected),
  };
}

/** Runs the steps on the app with one library. */
async function run(library: Library, options: Options, steps: readonly Step[]) {
  vi.setSystemTime(START_MS);
  const property = String(options.requestPropertyName ?? 'rateLimit');
  const app = appOf(library(options as never) as Middleware, property);
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  const responses: RecordedResponse[] = [];
  for (const step of steps) {
    if (step.atMs !== undefined) vi.setSystemTime(START_MS + step.atMs);
    responses.push(await send(port, step));
  }
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  return responses;
}

async function both(options: Options, steps: readonly Step[]) {
  return { theirs: await run(theirs, options, steps), ours: await run(ours, options, steps) };
}

const statuses = (responses: readonly RecordedResponse[]): number[] =>
  responses.map(({ status }) => status);

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: START_MS }));
afterEach(() => vi.useRealTimers());

/** Cases with equal responses in both libraries: name, expected statuses, options, steps. */
const alike: readonly [string, readonly number[], Options, readonly Step[]][] = [
  [
    'windowMs',
    [200, 429, 200],
    { ...TWO, limit: 1, windowMs: 5000 },
    [...[{}, { atMs: 4999 }, { atMs: 5000 }]],
  ],
  ['limit', [200, 200, 429, 429], TWO, times(4)],
  ['max', [200, 200, 200, 429], { windowMs: 60_000, max: 3, message: 'No.' }, times(4)],
  [
    'limit as a function of request and response',
    [200, 200, 429],
    {
      ...TWO,
      limit: async (request: Request, response: Response) =>
        response.req === request && request.get('x-plan') === 'big' ? 2 : 1,
    },
    [{}, { headers: { 'x-plan': 'big' } }, {}],
  ],
  [
    'keyGenerator',
    [200, 429, 200, 429],
    {
      ...TWO,
      limit: 1,
      keyGenerator: async (request: Request, response: Response) =>
        `${response.req === request} ${request.get('x-user')}`,
    },
    ['a', 'a', 'b', 'b'].map((user) => ({ headers: { 'x-user': user } })),
  ],
  [
    'skip',
    [200, 200, 200, 429],
    {
      ...TWO,
      limit: 1,
      skip: (request: Request, response: Response) =>
        response.req === request && request.path === '/health',
    },
    [{ path: '/health' }, { path: '/health' }, {}, {}],
  ],
  ['statusCode', [200, 200, 420, 420], { ...TWO, statusCode: 420 }, times(4)],
  ['message as an object', [200, 200, 429], { ...TWO, message: { error: 'slow' } }, times(3)],
  [
    'message as a function',
    [200, 200, 429],
    { ...TWO, message: async (request: Request) => `Not ${request.path} again.` },
    times(3),
  ],
  ['an empty message', [200, 200, 429], { ...TWO, message: '' }, times(3)],
  [
    'handler with status and message',
    [200, 200, 420],
    {
      ...TWO,
      statusCode: 420,
      handler: (
        _request: Request,
        response: Response,
        _next: unknown,
        options: { statusCode: number; message: string },
      ) => response.status(options.statusCode).send(`Handled: ${options.message}`),
    },
    times(3),
  ],
  [
    'handler that calls next with an error',
    [200, 200, 500],
    {
      ...TWO,
      handler: (_request: Request, _response: Response, next: (error: Error) => void) =>
        next(new Error('too much')),
    },
    times(3),
  ],
  [
    'skipSuccessfulRequests',
    [200, 200, 200, 401, 200, 401, 429, 429],
    { ...TWO, skipSuccessfulRequests: true },
    [...times(3), ...['401', '200', '401', '401', '200'].map((status) => statusOf(status))],
  ],
  [
    'skipFailedRequests',
    [500, 500, 404, 200, 500, 200, 429, 429],
    { ...TWO, skipFailedRequests: true },
    ['500', '500', '404', '200', '500', '200', '200', '500'].map((status) => statusOf(status)),
  ],
  ['requestPropertyName', [200, 200, 429], { ...TWO, requestPropertyName: 'budget' }, times(3)],
  ['resetKey', [200, 200, 429, 200, 200], TWO, [...times(3), { path: '/reset' }, {}]],
  [
    'undefined as the default',
    [200, 200, 429],
    { ...TWO, max: undefined, skip: undefined, handler: undefined, keyGenerator: undefined },
    times(3),
  ],
];

function statusOf(status: string): Step {
  return { headers: { 'x-status': status } };
}

describe('responses equal those of express-rate-limit', () => {
  it.each(alike)(
    'responses equal those of express-rate-limit with %s',
    async (_name, expected, options, steps) => {
      // The default headers differ: see below.
      const responses = await both(
        { legacyHeaders: true, standardHeaders: true, ...options },
        steps,
      );
      expect(statuses(responses.theirs)).toEqual(expected);
      expect(responses.ours).toEqual(responses.theirs);
    },
  );

  const forms = [true, false, 'draft-6', 'draft-7'].flatMap((standardHeaders) =>
    [true, false, undefined].map((legacyHeaders) => ({ standardHeaders, legacyHeaders })),
  );
  it.each(forms)('responses equal those of express-rate-limit with %j', async (form) => {
    const responses = await both({ ...TWO, ...form }, times(4));
    expect(statuses(responses.theirs)).toEqual([200, 200, 429, 429]);
    expect(responses.ours).toEqual(responses.theirs);
  });
});

describe('with a store of express-rate-limit', () => {
  const steps = [{}, { atMs: 9000 }, { atMs: 9500 }, { atMs: 10_500 }, { atMs: 11_000 }, {}];
  const options = { ...TWO, windowMs: 10_000, legacyHeaders: true, standardHeaders: true };
  const withStore = (library: Library, more: Options) =>
    run(library, { ...options, ...more, store: new TheirStore() }, steps);
  const onWarning = (): void => {};

  it.each([{}, { skipSuccessfulRequests: true }, { limit: async () => 2 }])(
    'Sluice with a store of express-rate-limit responds like express-rate-limit: %j',
    async (more) => {
      const there = await withStore(theirs, more);
      expect(await withStore(ours, { ...more, onWarning })).toEqual(there);
    },
  );

  it('a limit of 0 denies every request, as in express-rate-limit', async () => {
    const there = await withStore(theirs, { limit: 0, validate: false });
    const here = await withStore(ours, { limit: 0, onWarning });
    expect([statuses(there), statuses(here)]).toEqual(Array(2).fill(steps.map(() => 429)));
  });
});

/** An unavailable store of each library. */
const theirsUnavailable = { increment: fail, decrement: fail, resetKey: fail };
const oursUnavailable: Store = {
  ...memoryStore(),
  decide: () => Promise.reject(new Error('unavailable')),
};

function fail(): Promise<never> {
  return Promise.reject(new Error('unavailable'));
}

describe('intended differences', () => {
  const legacy = { ...TWO, windowMs: 10_000, legacyHeaders: true, standardHeaders: false };

  it('Sluice never exceeds the limit; express-rate-limit admits three calls in 2 s', async () => {
    const steps = [{}, { atMs: 9000 }, { atMs: 10_500 }, { atMs: 11_000 }, { atMs: 19_000 }];
    const responses = await both(legacy, steps);
    expect(statuses(responses.theirs)).toEqual([200, 200, 200, 200, 429]);
    expect(statuses(responses.ours)).toEqual([200, 200, 200, 429, 200]);
    // The call at 9 s leaves the window at exactly 19 s.
    expect(responses.ours[3].headers['retry-after']).toBe('8');
    const early = await run(ours, legacy, [...steps.slice(0, 4), { atMs: 18_999 }]);
    expect(statuses(early).at(-1)).toBe(429);
  });

  it('the reset header of Sluice is when the full limit is available', async () => {
    const responses = await both(legacy, [{}, { atMs: 4000 }]);
    const resets = (list: readonly RecordedResponse[]) =>
      list.map(({ headers }) => Number(headers['x-ratelimit-reset']) - START_MS / 1000);
    expect(resets(responses.theirs)).toEqual([10, 10]);
    expect(resets(responses.ours)).toEqual([10, 14]);
    const after = await run(ours, legacy, [{}, { atMs: 4000 }, { atMs: 14_000 }]);
    expect(after[2].headers['x-ratelimit-remaining']).toBe('1');
  });

  it('Sluice does not count denied calls as used, unlike express-rate-limit', async () => {
    const handler = (request: { rateLimit: { used: number } }, response: Response) =>
      response.status(429).json(request.rateLimit.used);
    const responses = await both({ ...TWO, handler }, times(5));
    const used = (list: readonly RecordedResponse[]) =>
      list.slice(2).map(({ body }) => Number(body));
    expect(used(responses.theirs)).toEqual([3, 4, 5]);
    expect(used(responses.ours)).toEqual([2, 2, 2]);
  });

  it('draft-8 headers of Sluice have no spaces and no hash of the key', async () => {
    const draft = { ...TWO, standardHeaders: 'draft-8', legacyHeaders: false };
    const responses = { theirs: await run(theirs, draft, times(3)) };
    const named = await run(ours, draft, times(3));
    expect(named.map(({ headers }) => headers.ratelimit)).toEqual([
      '"2-in-1min";r=1;t=60',
      '"2-in-1min";r=0;t=60',
      '"2-in-1min";r=0;t=60',
    ]);
    const plain = responses.theirs.map(({ status, body, headers }) => {
      const policy = headers['ratelimit-policy'].replace(/; pk=.*/, '').replaceAll('; ', ';');
      const ratelimit = headers.ratelimit.replaceAll('; ', ';');
      return { status, body, headers: { ...headers, ratelimit, 'ratelimit-policy': policy } };
    });
    expect(named).toEqual(plain);
  });

  it.each([...[1000, 30_000, 60_000, 90_000, 3_600_000, 7_200_000, 86_400_000, 172_800_000]])(
    'with draft-8, the default name for %i ms is that of express-rate-limit',
    async (windowMs) => {
      const draft = { ...TWO, windowMs, standardHeaders: 'draft-8' };
      const responses = await both(draft, times(1));
      const nameIn = ([{ headers }]: readonly RecordedResponse[]) =>
        /^"[^"]*"/.exec(headers.ratelimit)?.[0];
      expect(nameIn(responses.ours)).toEqual(nameIn(responses.theirs));
    },
  );

  it('with draft-8 and a store, the name is `default` or the identifier', async () => {
    const draft = { ...TWO, standardHeaders: 'draft-8', store: memoryStore() };
    expect((await run(ours, draft, times(1)))[0].headers.ratelimit).toBe('"default";r=1;t=60');
    const named = await run(ours, { ...draft, identifier: 'login' }, times(1));
    expect(named[0].headers.ratelimit).toBe('"login";r=1;t=60');
  });

  it('the default body of Sluice is problem details', async () => {
    const responses = await both({ windowMs: 60_000, limit: 1, standardHeaders: true }, times(2));
    expect(responses.theirs[1].body).toBe('Too many requests, please try again later.');
    expect(responses.ours[1].headers['content-type']).toBe('application/problem+json');
    expect(JSON.parse(responses.ours[1].body)).toMatchObject({
      title: 'Quota Exceeded',
      status: 429,
      'retry-after-ms': 60_000,
    });
    expect(statuses(responses.ours)).toEqual(statuses(responses.theirs));
  });

  it('the default headers of Sluice are those of the current draft', async () => {
    const responses = await both(TWO, times(3));
    const names = ({ headers }: RecordedResponse) =>
      Object.keys(headers).filter((n) => n !== 'content-type');
    expect(names(responses.theirs[0])).toEqual(
      ['limit', 'remaining', 'reset'].map((name) => `x-ratelimit-${name}`),
    );
    expect(names(responses.ours[0])).toEqual(['ratelimit', 'ratelimit-policy']);
    expect(statuses(responses.ours)).toEqual(statuses(responses.theirs));
  });

  it('in Sluice, an unavailable store results in a local limit instead of 500', async () => {
    const there = await run(theirs, { ...TWO, store: theirsUnavailable }, times(3));
    expect(statuses(there)).toEqual([500, 500, 500]);
    const store = withFailurePolicy(oursUnavailable, {});
    expect(statuses(await run(ours, { ...TWO, store }, times(3)))).toEqual([200, 200, 429]);
    const throwing = withFailurePolicy(oursUnavailable, { onFailure: 'throw' });
    const here = await run(ours, { ...TWO, store: throwing }, times(2));
    expect(statuses(here)).toEqual([503, 503]);
  });

  it('passOnStoreError admits all requests, without headers', async () => {
    const printed = vi.spyOn(console, 'error').mockImplementation(() => {});
    const options = { ...TWO, passOnStoreError: true, legacyHeaders: true };
    const there = await run(theirs, { ...options, store: theirsUnavailable }, times(3));
    expect(printed).toHaveBeenCalled();
    printed.mockRestore();
    const store = withFailurePolicy(oursUnavailable, { onFailure: 'deny' });
    const here = await run(ours, { ...options, store }, times(3));
    expect([statuses(there), statuses(here)]).toEqual(Array(2).fill([200, 200, 200]));
    for (const { headers } of [there[0], here[0]]) {
      expect(headers).not.toHaveProperty('x-ratelimit-limit');
    }
  });
});
