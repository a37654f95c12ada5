import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

let api: DocumentedApi;
beforeAll(async () => {
  const policies = [
    policy('log', 10, '1m'),
    policy('counter', 100, '1h', { algorithm: 'sliding-counter' }),
    policy('bucket', 10, '1h', { algorithm: 'token-bucket', burst: 20 }),
    policy('watched', 10, '1m', { shadow: true }),
    policy('lifelong', 10, '36500d'),
  ];
  api = await DocumentedApi.of(await startRunning({ config: { policies } }));
});
afterAll(() => api.close());

const check = async (body: unknown) => (await api.post('/v1/check', body)).json;
const remaining = async (name: string, key: string): Promise<number> =>
  (await api.post('/v1/peek', { policy: name, key })).json.remaining;
const refund = (receipt: unknown) => api.post('/v1/refund', { receipt });

describe('POST /v1/refund', () => {
  test('refund restores the charged cost', async () => {
    const { receipt } = await check({ policy: 'log', key: 'a', cost: 7 });
    expect(await remaining('log', 'a')).toBe(3);
    const { status, json } = await refund(receipt);
    expect([status, json]).toEqual([200, { refunded: 7, used: false }]);
    expect(await remaining('log', 'a')).toBe(10);
  });

  test('concurrent refunds of one receipt restore the cost once', async () => {
    await check({ policy: 'log', key: 'once', cost: 4 });
    const { receipt } = await check({ policy: 'log', key: 'once', cost: 2 });
    const responses = await Promise.all(Array.from({ length: 8 }, () => refund(receipt)));
    const unused = responses.filter(({ json }) => !json.used);
    expect(unused.map(({ json }) => json.refunded)).toEqual([2]);
    expect(responses.every(({ json }) => json.refunded === (json.used ? 0 : 2))).toBe(true);
    expect(await remaining('log', 'once')).toBe(6);
  });

  test('refund restores all limits of a check', async () => {
    const limits = [
      { policy: 'log', key: 'joint', cost: 2 },
      { policy: 'counter', key: 'joint', cost: 30 },
    ];
    const { receipt } = await check({ limits });
    expect((await refund(receipt)).json).toEqual({ refunded: 32, used: false });
    expect(await remaining('log', 'joint')).toBe(10);
    expect(await remaining('counter', 'joint')).toBe(100);
  });

  test('refund restores shadow limits', async () => {
    const first = await check({ policy: 'watched', key: 's', cost: 6 });
    expect((await refund(first.receipt)).json).toEqual({ refunded: 6, used: false });
    const second = await check({ policy: 'watched', key: 's', cost: 10 });
    expect(second.shadow[0].allowed).toBe(true);
  });

  test('a repeated check with an id is refunded once', async () => {
    const body = { policy: 'log', key: 'named', cost: 5, id: 'order-7' };
    const [first, again] = [await check(body), await check(body)];
    expect((await refund(first.receipt)).json).toEqual({ refunded: 5, used: false });
    expect((await refund(again.receipt)).json).toEqual({ refunded: 0, used: true });
  });

  test('refund restores each charge made under one id', async () => {
    const limits = [
      { policy: 'log', key: 'one' },
      { policy: 'counter', key: 'one' },
      { policy: 'log', key: 'other' },
    ];
    const receipts: unknown[] = [];
    for (const limit of limits) receipts.push((await check({ ...limit, id: 'X' })).receipt);
    for (const receipt of receipts) {
      expect((await refund(receipt)).json).toEqual({ refunded: 1, used: false });
    }
  });

  test('refund restores a charge with the longest window', async () => {
    const { receipt } = await check({ policy: 'lifelong', key: 'a' });
    const { status, json } = await refund(receipt);
    expect([status, json]).toEqual([200, { refunded: 1, used: false }]);
    expect((await refund(receipt)).json).toEqual({ refunded: 0, used: true });
  });
});

describe('POST /v1/settle', () => {
  test('settle replaces the reserved cost by the actual cost', async () => {
    const { receipt } = await check({ policy: 'log', key: 'less', cost: 8 });
    const { status, json } = await api.post('/v1/settle', { receipt, cost: 3 });
    expect([status, json]).toEqual([200, { change: -5, used: false }]);
    expect(await remaining('log', 'less')).toBe(7);
    const again = await api.post('/v1/settle', { receipt, cost: 1 });
    expect(again.json).toEqual({ change: 0, used: true });
    expect(await remaining('log', 'less')).toBe(7);
  });

  test('settle charges more than was reserved, even above the limit', async () => {
    const { receipt } = await check({ policy: 'log', key: 'more', cost: 1 });
    expect((await api.post('/v1/settle', { receipt, cost: 15 })).json.change).toBe(14);
    expect(await remaining('log', 'more')).toBe(0);
    const { json } = await api.get('/v1/keys/log/more');
    expect(json).toMatchObject({ used: 15, remaining: 0 });
  });

  test('settle is exact with the largest cost', async () => {
    for (const name of ['log', 'counter', 'bucket']) {
      const { receipt } = await check({ policy: name, key: 'huge', cost: 1 });
      const cost = Number.MAX_SAFE_INTEGER;
      const { status, json } = await api.post('/v1/settle', { receipt, cost });
      expect(status).toBe(200);
      expect(json.change).toBeGreaterThan(0);
      const denied = await check({ policy: name, key: 'huge' });
      expect(denied.allowed).toBe(false);
      expect(Number.isSafeInteger(denied.retryAfterMs)).toBe(true);
    }
  });

  test('settle accepts a cost per limit', async () => {
    const limits = [
      { policy: 'log', key: 'each', cost: 2 },
      { policy: 'counter', key: 'each', cost: 30 },
    ];
    const { receipt } = await check({ limits });
    const { json } = await api.post('/v1/settle', { receipt, costs: [3, 10] });
    expect(json).toEqual({ change: -19, used: false });
    expect(await remaining('log', 'each')).toBe(7);
    expect(await remaining('counter', 'each')).toBe(90);
  });
});

describe('invalid receipts', () => {
  const charge = { policy: 'log', key: 'r', cost: 1, atMs: 1 };
  const receipts: readonly [description: string, code: string, receipt: unknown][] = [
    ['a missing receipt', 'ERR_INVALID_RECEIPT', undefined],
    ['null', 'ERR_INVALID_RECEIPT', null],
    ['text', 'ERR_INVALID_RECEIPT', 'r'],
    ['a receipt without an id', 'ERR_INVALID_RECEIPT', { charges: [charge] }],
    ['a receipt without charges', 'ERR_INVALID_RECEIPT', { id: 'a', charges: [] }],
    [
      'a receipt with 65 charges',
      'ERR_INVALID_RECEIPT',
      { id: 'a', charges: Array(65).fill(charge) },
    ],
    [
      'a receipt with a long id',
      'ERR_INVALID_RECEIPT',
      { id: 'a'.repeat(1025), charges: [charge] },
    ],
    [
      'a receipt id with half a surrogate pair',
      'ERR_INVALID_KEY',
      { id: '\ud800', charges: [charge] },
    ],
    [
      ...(['an unknown field', 'ERR_INVALID_RECEIPT'] as const),
      { id: 'a', charges: [{ ...charge, more: 1 }] },
    ],
    ...[0, -1, 1.5, '1', null, 1e308].map((cost): [string, string, unknown] => [
      ...([`a charge of ${JSON.stringify(cost)}`, 'ERR_INVALID_RECEIPT'] as const),
      { id: 'a', charges: [{ ...charge, cost }] },
    ]),
    [
      ...(['an unknown policy', 'ERR_UNKNOWN_POLICY'] as const),
      { id: 'a', charges: [{ ...charge, policy: 'none' }] },
    ],
    ['an empty key', 'ERR_INVALID_KEY', { id: 'a', charges: [{ ...charge, key: '' }] }],
    [
      'half a surrogate pair in a key',
      'ERR_INVALID_KEY',
      { id: 'a', charges: [{ ...charge, key: '\udfff' }] },
    ],
  ];

  test.each(receipts)(
    'refund and settle reject %s with %s',
    async (_description, code, receipt) => {
      for (const path of ['/v1/refund', '/v1/settle']) {
        const body = path === '/v1/settle' ? { receipt, cost: 0 } : { receipt };
        const { status, json } = await api.post(path, body);
        expect([status, json.code]).toEqual([400, code]);
        expect(json.detail).toMatch(/^Expected /);
      }
    },
  );

  test('a rejected receipt stays unused', async () => {
    const { receipt } = await check({ policy: 'log', key: 'still', cost: 2 });
    const [first] = receipt.charges;
    const stray = { ...first, policy: 'none' };
    await refund({ id: receipt.id, charges: [stray] });
    expect((await refund(receipt)).json).toEqual({ refunded: 2, used: false });
  });

  test.each([
    ['no cost', {}],
    ['both cost and costs', { cost: 1, costs: [1] }],
    ['too many costs', { costs: [1, 2] }],
    ['a negative cost', { cost: -1 }],
    ['a string', { cost: '1' }],
    ['a fraction', { costs: [0.5] }],
    ['a cost above 2^53 - 1', { cost: 2 ** 53 }],
  ])('settle rejects %s', async (_description, costs) => {
    const { receipt } = await check({ policy: 'log', key: 'unsettled' });
    const { status, json } = await api.post('/v1/settle', { receipt, ...costs });
    expect([status, json.code]).toEqual([400, 'ERR_INVALID_COST']);
    expect((await refund(receipt)).json.used).toBe(false);
  });
});
