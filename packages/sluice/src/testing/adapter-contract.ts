/**
 * What every adapter must do, as a list of named cases that any test runner can run, each on a
 * server that really listens:
 *
 *     for (const { name, run } of adapterContract) it(name, () => run(myAdapter, () => myStore()));
 */
import { connect } from 'node:net';
import { systemClock } from '../clock.ts';
import { withFailurePolicy } from '../failure/guarded-store.ts';
import type { RequestOptions } from '../http/options.ts';
import type { FailureAction } from '../policy.ts';
import type { Store } from '../store.ts';

// biome-ignore lint/suspicious/noExplicitAny: every adapter has a request of its own kind.
type AnyRequest = any;

export interface RunningServer {
  readonly port: number;
  /** How many requests have come to the handler. */
  reached(): number;
  close(): Promise<void>;
}

/**
 * An adapter with a server around it, on 127.0.0.1, on any free port. Behind the limit is a handler
 * that answers with the status in the header `x-status` (default 200) and the body `hello`, after
 * as many ms as the header `x-wait` says.
 */
export interface AdapterUnderTest {
  serve(options: RequestOptions<AnyRequest>): Promise<RunningServer>;
  /** A header of what the adapter passes to functions. */
  header(request: AnyRequest, name: string): string | undefined;
}

export interface AdapterCase {
  readonly name: string;
  run(adapter: AdapterUnderTest, openStore: () => Store | Promise<Store>): Promise<void>;
}

interface World {
  readonly adapter: AdapterUnderTest;
  readonly store: Store;
  readonly server: RunningServer;
  ask(headers?: Record<string, string>, method?: string): Promise<Response>;
}

function equal(what: string, got: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(got), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: expected ${right}, got ${left}`);
}

type OptionsOf = (adapter: AdapterUnderTest) => RequestOptions<AnyRequest>;

function adapterCase(
  name: string,
  optionsOf: OptionsOf,
  test: (world: World) => Promise<void>,
): AdapterCase {
  return {
    name,
    async run(adapter, openStore) {
      const store = await openStore();
      const server = await adapter.serve({ store, ...optionsOf(adapter) });
      const ask = (headers: Record<string, string> = {}, method = 'GET'): Promise<Response> =>
        fetch(`http://127.0.0.1:${server.port}/`, { headers, method });
      try {
        await test({ adapter, store, server, ask });
      } finally {
        await server.close();
        await store.close();
      }
    },
  };
}

const five: OptionsOf = () => ({ limit: 5, window: '1h', name: 'five' });

const pause = (delayMs: number): Promise<void> =>
  new Promise((resolve) => {
    systemClock.schedule(delayMs, resolve);
  });

/** Waits for what an adapter does after the answer is out. */
async function eventually(
  what: string,
  look: () => unknown,
  expected: unknown,
  attempts = 2000,
): Promise<void> {
  const got = await look();
  if (JSON.stringify(got) === JSON.stringify(expected)) return;
  if (attempts === 0) equal(what, got, expected);
  await pause(5);
  await eventually(what, look, expected, attempts - 1);
}

const remainingOf = (response: Response): string | undefined =>
  /;r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1];

/** A store that fails every time, and what then is done. */
function broken(onFailure: FailureAction): Store {
  const fail = (): Promise<never> => Promise.reject(new Error('gone'));
  const store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
  return withFailurePolicy(store, { onFailure });
}

/** Sends bytes over one connection and reads until `count` answers have come. */
function sendRaw(port: number, bytes: string, count: number): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const statuses = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status);
      if (statuses.length < count) return;
      socket.destroy();
      resolve(statuses);
    });
    socket.on('error', reject);
    socket.on('end', () => reject(new Error(`the connection ended after: ${text.slice(-200)}`)));
  });
}

const AWAY: readonly (readonly [FailureAction, status: number, reached: number])[] = [
  ['allow', 200, 1],
  ['deny', 503, 0],
  ['local', 200, 1],
  ['throw', 503, 0],
];

const failureCases = AWAY.map(([action, status, reached]) =>
  adapterCase(
    `a store that is away, and \`${action}\`, is ${status}`,
    () => ({ limit: 5, window: '1h', store: broken(action) }),
    async ({ server, ask }) => {
      const answer = await ask();
      equal('status', answer.status, status);
      equal('reached', server.reached(), reached);
      if (action !== 'deny') return;
      const { type } = (await answer.json()) as { type: string };
      equal('type', type.endsWith('#temporary-reduced-capacity'), true);
    },
  ),
);

export const adapterContract: readonly AdapterCase[] = [
  adapterCase(
    'lets pass what is within the limit, and says how much is left',
    five,
    async (world) => {
      const answer = await world.ask();
      equal('status', answer.status, 200);
      equal('body', await answer.text(), 'hello');
      equal('policy', answer.headers.get('ratelimit-policy'), '"five";q=5;w=3600');
      equal('remaining', remainingOf(answer), '4');
      equal('again', remainingOf(await world.ask()), '3');
      equal('retry', answer.headers.get('retry-after'), null);
    },
  ),

  adapterCase(
    'refuses what is over it with 429, and tells when to come back',
    five,
    async (world) => {
      for (let call = 0; call < 5; call++) equal('status', (await world.ask()).status, 200);
      const refused = await world.ask();
      equal('status', refused.status, 429);
      equal('type', refused.headers.get('content-type')?.split(';')[0], 'application/problem+json');
      const problem = (await refused.json()) as Record<string, unknown>;
      equal('violated', problem['violated-policies'], ['five']);
      const wait = Number(refused.headers.get('retry-after'));
      equal('wait', wait > 3500 && wait <= 3600, true);
      equal('remaining', remainingOf(refused), '0');
      equal('the handler was not reached', world.server.reached(), 5);
    },
  ),

  adapterCase(
    'decides several limits together, each with a key of its own',
    () => ({
      limits: [
        { name: 'user', limit: 1, window: '1h', key: { header: 'x-user' } },
        { name: 'all', limit: 3, window: '1h', key: () => 'all' },
      ],
    }),
    async ({ ask }) => {
      const statuses: number[] = [];
      for (const user of ['ada', 'ada', 'bob', 'eve', 'kim']) {
        statuses.push((await ask({ 'x-user': user })).status);
      }
      // What was refused to ada is not taken from all.
      equal('statuses', statuses, [200, 429, 200, 200, 429]);
    },
  ),

  adapterCase(
    'takes the cost that a function says',
    (adapter) => ({
      limit: 10,
      window: '1h',
      cost: (request) => Number(adapter.header(request, 'x-cost') ?? 1),
    }),
    async ({ ask }) => {
      equal('heavy', remainingOf(await ask({ 'x-cost': '7' })), '3');
      equal('too heavy', (await ask({ 'x-cost': '4' })).status, 429);
      equal('light', remainingOf(await ask({ 'x-cost': '3' })), '0');
    },
  ),

  adapterCase(
    'settles the cost when the answer is known',
    () => ({ limit: 10, window: '1h', cost: 5, settle: ({ status }) => (status === 200 ? 1 : 3) }),
    async ({ ask }) => {
      equal('reserved', remainingOf(await ask()), '5');
      const left = async (): Promise<string | undefined> => {
        const answer = await ask({ 'x-status': '404' });
        return answer.status === 404 ? remainingOf(answer) : undefined;
      };
      equal('settled at 1', await left(), '4');
      equal('and then at 3', (await ask()).status, 200);
    },
  ),

  adapterCase(
    'counts only failures, if told so',
    () => ({ limit: 2, window: '1h', count: 'failures' as const }),
    async ({ ask }) => {
      for (let call = 0; call < 6; call++) {
        await eventually('status', async () => (await ask()).status, 200);
      }
      equal('first', (await ask({ 'x-status': '401' })).status, 401);
      equal('second', (await ask({ 'x-status': '401' })).status, 401);
      equal('refused', (await ask()).status, 429);
    },
  ),

  adapterCase(
    'skips what is to be skipped',
    (adapter) => ({
      limit: 1,
      window: '1h',
      skip: (request) => adapter.header(request, 'x-skip') === 'yes',
    }),
    async ({ ask }) => {
      const statuses: number[] = [];
      for (const skip of ['yes', 'no', 'yes', 'no']) {
        statuses.push((await ask({ 'x-skip': skip })).status);
      }
      equal('statuses', statuses, [200, 200, 200, 429]);
    },
  ),

  adapterCase(
    'a shadow decides and is never in the way',
    () => ({ limit: 1, window: '1h', shadow: true }),
    async ({ ask }) => {
      for (let call = 0; call < 3; call++) {
        const answer = await ask();
        equal('status', answer.status, 200);
        equal('no field', answer.headers.get('ratelimit'), null);
      }
    },
  ),

  adapterCase(
    'an address on a list always passes, or never',
    () => ({ limit: 1, window: '1h', deny: ['127.0.0.0/8'] }),
    async ({ ask, server }) => {
      equal('denied', (await ask()).status, 403);
      equal('reached', server.reached(), 0);
    },
  ),

  ...failureCases,

  adapterCase(
    'a client that is gone before the answer is a failure',
    () => ({ limit: 10, window: '1h', count: 'failures' as const, settle: () => 5 }),
    async ({ ask, server }) => {
      for (let call = 0; call < 2; call++) {
        const control = new AbortController();
        const asking = fetch(`http://127.0.0.1:${server.port}/`, {
          headers: { 'x-wait': '2000' },
          signal: control.signal,
        }).catch(() => {});
        await eventually('reached', () => server.reached() > call, true);
        control.abort();
        await asking;
      }
      // Some adapters learn of it when the handler is done. Who asks meanwhile is not counted.
      await eventually('status', async () => (await ask()).status, 429);
    },
  ),

  adapterCase('counts HEAD and OPTIONS like any other', five, async ({ ask }) => {
    const head = await ask({}, 'HEAD');
    equal('head', [head.status, remainingOf(head), await head.text()], [200, '4', '']);
    equal('options', remainingOf(await ask({}, 'OPTIONS')), '3');
    for (let call = 0; call < 3; call++) await ask();
    const refused = await ask({}, 'HEAD');
    equal('refused', [refused.status, await refused.text()], [429, '']);
    equal('wait', Number(refused.headers.get('retry-after')) > 0, true);
    equal('options too', (await ask({}, 'OPTIONS')).status, 429);
  }),

  adapterCase('200 requests in one packet are never more than the limit', five, async (world) => {
    const request = 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
    const statuses = await sendRaw(world.server.port, request.repeat(200), 200);
    equal('admitted', statuses.filter((status) => status === '200').length, 5);
    equal('refused', statuses.filter((status) => status === '429').length, 195);
    equal('reached', world.server.reached(), 5);
  }),
];
