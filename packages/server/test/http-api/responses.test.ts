/** Every response of every operation, also to invalid requests, matches the OpenAPI document. */
import { afterAll, describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/config/model.ts';
import { ANY_METHOD } from '../../src/http/router.ts';
import { pathOf } from '../../src/http-api/openapi.ts';
import { read } from '../config/fixtures.ts';
import { unavailableStore } from '../fallible-store.ts';
import { type RunningOptions, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';
import { sendRequest } from './plain-request.ts';
import { fresh } from './sign-in.ts';

const TOKEN = 'correct horse battery staple';
/** `SLUICE_CAMPAIGN=full` sends every request in every case. */
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

const entry = [{ key: 'user', value: 'a' }];
const config = read(`
policies:
  few: { limit: 2, window: 1m, costs: { search: 2 } }
  watched: { limit: 1, window: 1m, shadow: true }
rules:
  - match: { path: '/*' }
    limits: [{ policy: few, key: address }]
overrides:
  - { policy: few, key: lowered, limit: 1 }
domains:
  - domain: edge
    descriptors:
      - { key: user, rate_limit: { unit: minute, requests_per_unit: 1 } }
      - { key: user, value: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
`);

/** Valid and invalid values of path parameters. */
const PATH_PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  policy: ['few', 'none', '%', '%FF'],
  key: ['a', '%00', 'x'.repeat(1100)],
  path: ['a/b', 'index.js', '..%2f'],
};

const QUERIES = [
  '',
  'stray=1',
  'policy=few&key=a',
  'policy=none&key=a',
  'policy=few',
  'policy=few&by=allowed&count=3',
  'policy=few&by=x',
  'policy=few&count=0',
  'seconds=5',
  'seconds=x',
  'enforce',
  'enforce=x',
  'deny=403',
  'store=optional',
  'store=x',
];

const receipt = { id: 'r', charges: [{ policy: 'few', key: 'a', cost: 1, atMs: 1 }] };
const BODIES: readonly unknown[] = [
  undefined,
  {},
  [],
  'text',
  { policy: 'few', key: 'a' },
  { policy: 'few', key: 'a', cost: 3 },
  { policy: 'few', key: 'b', operation: 'search', id: 'i' },
  { policy: 'none', key: 'a' },
  { policy: 'watched', key: 'a' },
  {
    limits: [
      { policy: 'few', key: 'c' },
      { policy: 'watched', key: 'c' },
    ],
  },
  {
    checks: [
      { policy: 'few', key: 'd' },
      { policy: 'few', key: 'd', onFailure: 'throw' },
    ],
  },
  { policy: 'few', key: 'e', limit: 5, reason: 'x' },
  { limit: 5, expiresInMs: 1000 },
  { shadow: true },
  { shadow: null },
  { receipt },
  { receipt, cost: 1 },
  { receipt: { ...receipt, charges: [{ ...receipt.charges[0], policy: 'none' }] }, cost: 1 },
  { token: TOKEN },
  { token: 'wrong' },
  { domain: 'edge', descriptors: [{ entries: entry }] },
  { domain: 'edge', descriptors: [{ entries: entry, limit: { requestsPerUnit: 1, unit: 'DAY' } }] },
  { domain: 'edge', descriptors: [{ entries: entry, hitsAddend: '9' }] },
  { domain: '', descriptors: [] },
  { domain: 'edge', descriptors: [{ entries: [{ key: 'user', value: 'never' }] }] },
];

/** Returns the targets of a route, with every value of its parameters and every query. */
function targetsOf(path: string): readonly string[] {
  const paths = pathOf(path)
    .split(/(\{\w+\})/)
    .reduce<readonly string[]>(
      (starts, part) => {
        const values = PATH_PARAMETERS[part.slice(1, -1)] ?? [part];
        return starts.flatMap((start) => values.map((value) => start + value));
      },
      [''],
    );
  const whole = path === '/dashboard/' ? [path] : paths;
  return [
    ...whole,
    ...QUERIES.filter((each) => each !== '').map((query) => `${whole[0]}?${query}`),
  ];
}

type Headers = { readonly [name: string]: string };

interface Request {
  readonly method: string;
  readonly target: string;
  readonly body: unknown;
  /** The place among the requests to its route. */
  readonly place: number;
}

/** Returns the requests to a route: every target, and for the first target every body. */
function requestsTo(method: string, path: string): readonly Request[] {
  const [first, ...others] = targetsOf(path);
  const [body] = BODIES.slice(4);
  const all =
    method === 'GET' || method === 'DELETE'
      ? [first, ...others].map((target) => ({ target, body: undefined }))
      : [
          ...BODIES.map((each) => ({ target: first, body: each })),
          ...others.map((target) => ({ target, body })),
        ];
  return all.map((each, place) => ({ ...each, method, place }));
}

/**
 * Sends requests with each of the headers, checks the responses, and returns their statuses. In the
 * short form, every `stride`-th request of a route, and fewer with headers after the first.
 */
async function sendAll(
  options: RunningOptions,
  headers: readonly Headers[],
  stride: number,
): Promise<Set<number>> {
  const api = await DocumentedApi.of(await startRunning({ config, ...options }));
  closing.push(() => api.close());
  const statuses = new Set<number>();
  const requests = api.running.service.routes.flatMap(({ method, path }) => {
    const methods = method === ANY_METHOD ? ['GET', 'POST'] : [method];
    return methods.flatMap((each) => requestsTo(each, path));
  });
  for (const { method, target, body, place } of requests) {
    const isSent = (_: unknown, form: number): boolean =>
      isFull || place % (form === 0 ? stride : 5) === 0;
    const responses = headers.filter(isSent).map((each) =>
      // After ten wrong tokens an address is limited, so each request has another address.
      sendRequest(api.running.url + target, method, each, body, each.authorization ? fresh() : {}),
    );
    for (const received of await Promise.all(responses)) {
      const type = received.headers['content-type'];
      if (!type?.startsWith('text/event-stream')) api.check(method, target, { ...received, type });
      statuses.add(received.status);
    }
  }
  return statuses;
}

const WITHOUT_TOKEN = [{}, { accept: 'text/html' }, { 'sec-fetch-site': 'cross-site' }];

describe('responses match the OpenAPI document', { timeout: 120_000 }, () => {
  test('responses match the OpenAPI document on loopback with the memory store', async () => {
    const statuses = await sendAll({}, WITHOUT_TOKEN, 1);
    for (const status of [200, 302, 400, 403, 404, 429]) expect(statuses).toContain(status);
  });

  test('responses match the OpenAPI document with any token and cross-site', async () => {
    const headers = [
      { authorization: `Bearer ${TOKEN}` },
      {},
      { authorization: 'Bearer wrong' },
      { origin: 'https://evil.example' },
    ];
    const statuses = await sendAll({ settings: { adminToken: TOKEN } }, headers, 2);
    for (const status of [200, 401, 403, 429]) expect(statuses).toContain(status);
  });

  test.each(['deny', 'throw', 'allow', 'local'] as const)(
    'without the store, responses match the OpenAPI document with the action %s',
    async (action) => {
      const stride = action === 'deny' ? 1 : 4;
      const statuses = await sendAll({ store: unavailableStore(action) }, [{}], stride);
      expect(statuses).toContain(503);
    },
  );

  test('responses match the OpenAPI document while configuration files are invalid', async () => {
    const load = async () => {
      throw new ConfigError([{ file: 'a.yaml', line: 1, column: 2, message: 'wrong' }]);
    };
    const statuses = await sendAll({ load }, [{}], 4);
    expect(statuses).toContain(422);
  });
});
