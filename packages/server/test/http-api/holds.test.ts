import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { concurrencyPolicy, policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

let api: DocumentedApi;
beforeAll(async () => {
  const policies = [
    concurrencyPolicy('jobs', 2),
    { ...concurrencyPolicy('watched', 1), shadow: true },
    concurrencyPolicy('short', 1, '1ms'),
    policy('log', 10, '1m'),
  ];
  api = await DocumentedApi.of(await startRunning({ config: { policies } }));
});
afterAll(() => api.close());

const check = async (body: unknown) => (await api.post('/v1/check', body)).json;
const release = (receipt: unknown) => api.post('/v1/release', { receipt });
const renew = (receipt: unknown) => api.post('/v1/renew', { receipt });

describe('concurrency limits of the HTTP API', () => {
  test('a check of a concurrency limit returns a fence, also in limit and receipt', async () => {
    const first = await check({ policy: 'jobs', key: 'fence' });
    const second = await check({ policy: 'jobs', key: 'fence' });
    expect(second.fence).toBeGreaterThan(first.fence);
    expect(first.limits[0].fence).toBe(first.fence);
    expect(first.receipt.charges[0].fence).toBe(first.fence);
    const third = await check({ policy: 'jobs', key: 'fence' });
    expect([third.allowed, third.fence]).toEqual([false, undefined]);
  });

  test('POST /v1/release ends a hold once', async () => {
    const { receipt } = await check({ policy: 'jobs', key: 'release', cost: 2 });
    expect((await check({ policy: 'jobs', key: 'release' })).allowed).toBe(false);
    const { status, json } = await release(receipt);
    expect([status, json]).toEqual([200, { released: true }]);
    expect((await release(receipt)).json).toEqual({ released: false });
    expect((await check({ policy: 'jobs', key: 'release', cost: 2 })).allowed).toBe(true);
  });

  test('POST /v1/renew moves the expiry of a hold', async () => {
    const { receipt } = await check({ policy: 'jobs', key: 'renew' });
    const expiry = async (): Promise<number> =>
      (await api.get('/v1/keys/jobs/renew')).json.holds[0].expiresAtMs;
    const before = await expiry();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await renew(receipt)).json).toEqual({ renewed: true });
    expect(await expiry()).toBeGreaterThan(before);
  });

  test('an expired hold can be neither renewed nor released', async () => {
    const { receipt } = await check({ policy: 'short', key: 'a' });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect((await renew(receipt)).json).toEqual({ renewed: false });
    expect((await release(receipt)).json).toEqual({ released: false });
  });

  test('release keeps the charges of windows, and refund returns charges and holds', async () => {
    const limits = [
      { policy: 'log', key: 'joint', cost: 3 },
      { policy: 'jobs', key: 'joint' },
    ];
    const first = await check({ limits });
    expect((await release(first.receipt)).json).toEqual({ released: true });
    expect((await api.get('/v1/keys/log/joint')).json.used).toBe(3);
    const second = await check({ limits });
    const refunded = await api.post('/v1/refund', { receipt: second.receipt });
    expect(refunded.json).toEqual({ refunded: 4, used: false });
    expect((await api.get('/v1/keys/log/joint')).json.used).toBe(3);
    expect((await api.get('/v1/keys/jobs/joint')).json.holds ?? []).toEqual([]);
  });

  test('settle keeps the hold, and a later refund releases the hold', async () => {
    const limits = [
      { policy: 'log', key: 'settled', cost: 3 },
      { policy: 'jobs', key: 'settled' },
    ];
    const { receipt } = await check({ limits });
    const settled = await api.post('/v1/settle', { receipt, costs: [1, 1] });
    expect(settled.json).toEqual({ change: -2, used: false });
    expect((await api.get('/v1/keys/jobs/settled')).json.holds).toHaveLength(1);
    const refunded = await api.post('/v1/refund', { receipt });
    expect(refunded.json).toEqual({ refunded: 1, used: true });
  });

  test('a repeated check with an id returns the same hold', async () => {
    const body = { policy: 'jobs', key: 'repeated', id: 'job 1' };
    const first = await check(body);
    const second = await check(body);
    expect(second.fence).toBe(first.fence);
    expect(second.receipt).toEqual(first.receipt);
    expect((await release(second.receipt)).json).toEqual({ released: true });
    expect((await release(first.receipt)).json).toEqual({ released: false });
  });

  test('the hold of a shadow limit can be released', async () => {
    const { receipt } = await check({ policy: 'watched', key: 'a' });
    expect((await check({ policy: 'watched', key: 'a' })).shadow[0].allowed).toBe(false);
    expect((await release(receipt)).json).toEqual({ released: true });
    expect((await check({ policy: 'watched', key: 'a' })).shadow[0].allowed).toBe(true);
  });

  test('GET /v1/keys returns holds with fence, cost, times and label', async () => {
    const first = await check({ policy: 'jobs', key: 'listed', label: 'report 7' });
    const second = await check({ policy: 'jobs', key: 'listed' });
    const { json } = await api.get('/v1/keys/jobs/listed');
    expect(json).toMatchObject({ algorithm: 'concurrency', used: 2, windowMs: 30_000 });
    expect(json.holds).toEqual(
      [first, second].map(({ fence, atMs }, at) => ({
        ...{ fence, cost: 1, atMs, expiresAtMs: atMs + 30_000 },
        ...(at === 0 && { label: 'report 7' }),
      })),
    );
  });

  test('the checks of a batch can label their holds', async () => {
    const one = { policy: 'jobs', key: 'batch' };
    const checks = [
      { ...one, label: 'one' },
      { limits: [one], label: 'two' },
    ];
    await api.post('/v1/check', { checks });
    const { json } = await api.get('/v1/keys/jobs/batch');
    expect(json.holds.map(({ label }: { label?: string }) => label)).toEqual(['one', 'two']);
  });

  test.each([[5], ['x'.repeat(65)], [null]])(
    'POST /v1/check rejects the label %j',
    async (label) => {
      const { status, json } = await api.post('/v1/check', { policy: 'jobs', key: 'a', label });
      expect([status, json.code, json.pointer]).toEqual([400, 'ERR_INVALID_OPTION', '/label']);
      expect(json.detail).toMatch(/^Expected `label` to be a string of at most 64 characters, got/);
    },
  );

  test.each(['/v1/release', '/v1/renew'])('%s rejects a receipt without a hold', async (path) => {
    const { receipt } = await check({ policy: 'log', key: 'none' });
    const { status, json } = await api.post(path, { receipt });
    expect([status, json.code, json.pointer]).toEqual([400, 'ERR_INVALID_RECEIPT', '/receipt']);
    expect(json.detail).toContain('Expected the receipt of a concurrency limit');
  });

  test.each(['/v1/release', '/v1/renew'])('%s rejects a body without a receipt', async (path) => {
    const { status, json } = await api.post(path, {});
    expect([status, json.code]).toEqual([400, 'ERR_INVALID_RECEIPT']);
  });

  test('a receipt with a forged fence releases nothing', async () => {
    const { receipt } = await check({ policy: 'jobs', key: 'forged' });
    const charges = receipt.charges.map((charge: object) => ({ ...charge, fence: 7 }));
    expect((await release({ ...receipt, charges })).json).toEqual({ released: false });
    expect((await api.get('/v1/keys/jobs/forged')).json.used).toBe(1);
  });
});
