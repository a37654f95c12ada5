/**
 * The contract of adapters, as named cases that any test runner can run. Each case uses a real
 * server:
 *
 *     for (const { name, run } of adapterContract) it(name, () => run(myAdapter, () => myStore()));
 */
import { connect } from 'node:net';
import { withFailurePolicy } from '../failure/guarded-store.ts';
import type { FailureAction } from '../policy.ts';
import type { Store } from '../store.ts';
import {
  type AdapterCase,
  adapterCase,
  equal,
  eventually,
  type OptionsOf,
} from './adapter-case.ts';
import { concurrencyCases } from './adapter-concurrency.ts';
import { observationCases } from './adapter-observation.ts';

const fivePerHour: OptionsOf = () => ({ limit: 5, window: '1h', name: 'five' });

const remainingOf = (response: Response): string | undefined =>
  /;r=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1];

/** Returns a store that always fails, wrapped with a failure action. */
function failingStore(onFailure: FailureAction): Store {
  const fail = (): Promise<never> => Promise.reject(new Error('store is down'));
  const store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
  return withFailurePolicy(store, { onFailure });
}

/** Sends bytes over one connection. Resolves to the statuses of `count` responses. */
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

const FAILURES: readonly (readonly [FailureAction, status: number, reached: number])[] = [
  ['allow', 200, 1],
  ['deny', 503, 0],
  ['local', 200, 1],
  ['throw', 503, 0],
];

const failureCases = FAILURES.map(([action, status, reached]) =>
  adapterCase(
    `responds ${status} if the store fails and onFailure is \`${action}\``,
    () => ({ limit: 5, window: '1h', store: failingStore(action) }),
    async ({ server, request }) => {
      const response = await request();
      equal('status', response.status, status);
      equal('requests that reached the handler', server.reached(), reached);
      if (action !== 'deny') return;
      const { type } = (await response.json()) as { type: string };
      equal('the type is reduced capacity', type.endsWith('#temporary-reduced-capacity'), true);
    },
  ),
);

export const adapterContract: readonly AdapterCase[] = [
  adapterCase(
    'admits requests within the limit and reports the remaining cost',
    fivePerHour,
    async (world) => {
      const response = await world.request();
      equal('status', response.status, 200);
      equal('body', await response.text(), 'hello');
      equal(
        'header RateLimit-Policy',
        response.headers.get('ratelimit-policy'),
        '"five";q=5;w=3600',
      );
      equal('remaining after the first request', remainingOf(response), '4');
      equal('remaining after the second request', remainingOf(await world.request()), '3');
      equal('header Retry-After', response.headers.get('retry-after'), null);
    },
  ),

  adapterCase(
    'denies requests over the limit with 429 and Retry-After',
    fivePerHour,
    async (world) => {
      for (let call = 0; call < 5; call++) equal('status', (await world.request()).status, 200);
      const denied = await world.request();
      equal('status of the denied request', denied.status, 429);
      const [type] = denied.headers.get('content-type')?.split(';') ?? [];
      equal('content type', type, 'application/problem+json');
      const problem = (await denied.json()) as Record<string, unknown>;
      equal('violated policies', problem['violated-policies'], ['five']);
      const wait = Number(denied.headers.get('retry-after'));
      equal('Retry-After is from 3501 to 3600', wait > 3500 && wait <= 3600, true);
      equal('remaining after the denial', remainingOf(denied), '0');
      equal('requests that reached the handler', world.server.reached(), 5);
    },
  ),

  adapterCase(
    'decides several limits together, each with its own key',
    () => ({
      limits: [
        { name: 'user', limit: 1, window: '1h', key: { header: 'x-user' } },
        { name: 'all', limit: 3, window: '1h', key: () => 'all' },
      ],
    }),
    async ({ request }) => {
      const statuses: number[] = [];
      for (const user of ['ada', 'ada', 'bob', 'eve', 'kim']) {
        statuses.push((await request({ 'x-user': user })).status);
      }
      // The request denied for ada is not charged to `all`.
      equal('statuses by request', statuses, [200, 429, 200, 200, 429]);
    },
  ),

  adapterCase(
    'charges the cost that a function returns',
    (adapter) => ({
      limit: 10,
      window: '1h',
      cost: (request) => Number(adapter.header(request, 'x-cost') ?? 1),
    }),
    async ({ request }) => {
      equal('remaining after cost 7', remainingOf(await request({ 'x-cost': '7' })), '3');
      equal('status of cost 4', (await request({ 'x-cost': '4' })).status, 429);
      equal('remaining after cost 3', remainingOf(await request({ 'x-cost': '3' })), '0');
    },
  ),

  adapterCase(
    'settles the cost after the response',
    () => ({ limit: 10, window: '1h', cost: 5, settle: ({ status }) => (status === 200 ? 1 : 3) }),
    async ({ request }) => {
      equal('remaining while the cost is reserved', remainingOf(await request()), '5');
      const remainingAfter404 = async (): Promise<string | undefined> => {
        const response = await request({ 'x-status': '404' });
        return response.status === 404 ? remainingOf(response) : undefined;
      };
      equal('remaining after the first was settled at 1', await remainingAfter404(), '4');
      equal('status after the second was settled at 3', (await request()).status, 200);
    },
  ),

  adapterCase(
    'counts only failed requests with `count: failures`',
    () => ({ limit: 2, window: '1h', count: 'failures' as const }),
    async ({ request }) => {
      for (let call = 0; call < 6; call++) {
        await eventually(
          'status of a successful request',
          async () => (await request()).status,
          200,
        );
      }
      for (let call = 0; call < 2; call++) {
        equal('status of a failed request', (await request({ 'x-status': '401' })).status, 401);
      }
      equal('status after two failed requests', (await request()).status, 429);
    },
  ),

  adapterCase(
    'does not count requests that `skip` selects',
    (adapter) => ({
      limit: 1,
      window: '1h',
      skip: (request) => adapter.header(request, 'x-skip') === 'yes',
    }),
    async ({ request }) => {
      const statuses: number[] = [];
      for (const skip of ['yes', 'no', 'yes', 'no']) {
        statuses.push((await request({ 'x-skip': skip })).status);
      }
      equal('statuses by request', statuses, [200, 200, 200, 429]);
    },
  ),

  adapterCase(
    'a shadow limit denies no request and sends no headers',
    () => ({ limit: 1, window: '1h', shadow: true }),
    async ({ request }) => {
      for (let call = 0; call < 3; call++) {
        const response = await request();
        equal('status', response.status, 200);
        equal('header RateLimit', response.headers.get('ratelimit'), null);
      }
    },
  ),

  adapterCase(
    'responds 403 to an address in the deny list',
    () => ({ limit: 1, window: '1h', deny: ['127.0.0.0/8'] }),
    async ({ request, server }) => {
      equal('status', (await request()).status, 403);
      equal('requests that reached the handler', server.reached(), 0);
    },
  ),

  ...failureCases,

  ...observationCases,
  ...concurrencyCases,

  adapterCase(
    'counts a request that the client aborts as failed',
    () => ({ limit: 10, window: '1h', count: 'failures' as const, settle: () => 5 }),
    async ({ request, server }) => {
      for (let call = 0; call < 2; call++) {
        const control = new AbortController();
        const pending = fetch(`http://127.0.0.1:${server.port}/`, {
          headers: { 'x-wait': '2000' },
          signal: control.signal,
        }).catch(() => {});
        await eventually('the request reached the handler', () => server.reached() > call, true);
        control.abort();
        await pending;
      }
      // Some adapters detect the abort only when the handler is done. Until then, requests are
      // admitted, and refunded because they succeed.
      await eventually('status after the aborts', async () => (await request()).status, 429);
    },
  ),

  adapterCase('counts HEAD and OPTIONS like other methods', fivePerHour, async ({ request }) => {
    const head = await request({}, 'HEAD');
    equal(
      'status, remaining and body of HEAD',
      [head.status, remainingOf(head), await head.text()],
      [200, '4', ''],
    );
    equal('remaining after OPTIONS', remainingOf(await request({}, 'OPTIONS')), '3');
    for (let call = 0; call < 3; call++) await request();
    const denied = await request({}, 'HEAD');
    equal('status and body of a denied HEAD', [denied.status, await denied.text()], [429, '']);
    equal('Retry-After is above 0', Number(denied.headers.get('retry-after')) > 0, true);
    equal('status of a denied OPTIONS', (await request({}, 'OPTIONS')).status, 429);
  }),

  adapterCase('200 pipelined requests never exceed the limit', fivePerHour, async (world) => {
    const bytes = 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
    const statuses = await sendRaw(world.server.port, bytes.repeat(200), 200);
    equal('admitted requests', statuses.filter((status) => status === '200').length, 5);
    equal('denied requests', statuses.filter((status) => status === '429').length, 195);
    equal('requests that reached the handler', world.server.reached(), 5);
  }),
];
