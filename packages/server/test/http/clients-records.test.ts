/** One client floods the service with ids and receipts; the records of another one remain. */
import { Agent } from 'node:http';
import { memoryStore } from 'sluice';
import { afterEach, describe, expect, test } from 'vitest';
import { RunningGroup } from '../cluster/running-group.ts';
import { sendRequest } from '../http-api/plain-request.ts';
import { policy, startRunning } from '../running.ts';

const POLICIES = [policy('p', 1_000_000, '1h')];
const FLOODER = '127.0.0.1';
const VICTIM = '127.0.0.2';
const OTHER_VICTIM = '127.0.0.3';

let url = '';
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const agent = new Agent({ keepAlive: true });

async function post(from: string, path: string, body: unknown) {
  const { status, json } = await sendRequest(url + path, 'POST', {}, body, {
    localAddress: from,
    agent,
  });
  expect(status).toBe(200);
  return json;
}

const check = (from: string, key: string, id?: string) =>
  post(from, '/v1/check', { policy: 'p', key, cost: 3, ...(id !== undefined && { id }) });
const refund = (from: string, receipt: unknown) => post(from, '/v1/refund', { receipt });

async function used(key: string): Promise<number> {
  return 1_000_000 - (await post(FLOODER, '/v1/peek', { policy: 'p', key })).remaining;
}

/** Sends ids with 64 limits and long keys: 250 of them take over 32 MiB, 16 over 2 MiB. */
async function floodIds(count: number): Promise<void> {
  for (let call = 0; call < count; call++) {
    const limits = Array.from({ length: 64 }, (_, place) => ({
      policy: 'p',
      key: `${call}-${place}`.padStart(1024, 'x'),
    }));
    await post(FLOODER, '/v1/check', { limits, id: `flood-${call}` });
  }
}

async function startSmall(maxIdBytes: number): Promise<void> {
  const store = { kind: 'memory', store: memoryStore({ maxIdBytes }), close: async () => {} };
  const service = await startRunning({ config: { policies: POLICIES }, store });
  closing.push(() => service.close());
  url = service.url;
}

async function startWorkers(): Promise<void> {
  const group = await RunningGroup.start({ config: { policies: POLICIES } });
  closing.push(() => group.stop());
  url = group.url;
}

describe.each([
  ['one process', () => startSmall(2 ** 21), 25],
  ['two workers', startWorkers, 260],
])('with %s', (_, start, flood) => {
  test('a flood of ids does not evict the id of another client', { timeout: 120_000 }, async () => {
    await start();
    const first = await check(VICTIM, 'victim', 'order-7');
    await floodIds(flood);
    const again = await check(VICTIM, 'victim', 'order-7');
    expect(again).toEqual(first);
    expect(await used('victim')).toBe(3);
    expect(await refund(VICTIM, again.receipt)).toEqual({ refunded: 3, used: false });
    expect(await refund(VICTIM, first.receipt)).toEqual({ refunded: 0, used: true });
    expect(await used('victim')).toBe(0);
  });

  test('a check with a known id from another address returns the same receipt', async () => {
    await start();
    const first = await check(VICTIM, 'victim', 'order-7');
    expect(await check(OTHER_VICTIM, 'victim', 'order-7')).toEqual(first);
    expect(await refund(OTHER_VICTIM, first.receipt)).toEqual({ refunded: 3, used: false });
    expect(await refund(VICTIM, first.receipt)).toEqual({ refunded: 0, used: true });
  });
});

describe('with memory for 100 receipts', () => {
  async function floodReceipts(count: number): Promise<void> {
    for (let call = 0; call < count; call++) {
      const { receipt } = await check(FLOODER, 'flooder');
      expect(await refund(FLOODER, receipt)).toEqual({ refunded: 3, used: false });
    }
  }

  test('a flood of refunds does not block the refund of another client', async () => {
    await startSmall(18_000);
    const { receipt } = await check(VICTIM, 'victim');
    await floodReceipts(200);
    expect(await refund(VICTIM, receipt)).toEqual({ refunded: 3, used: false });
    await floodReceipts(200);
    expect(await refund(VICTIM, receipt)).toEqual({ refunded: 0, used: true });
    expect(await used('victim')).toBe(0);
  });

  test('forged receipts do not block the refund of another client', async () => {
    await startSmall(18_000);
    const { receipt } = await check(VICTIM, 'victim');
    const { charges } = (await check(FLOODER, 'flooder')).receipt;
    for (let call = 0; call < 200; call++) {
      await refund(FLOODER, { id: `forged-${call}`, charges });
    }
    expect(await refund(VICTIM, receipt)).toEqual({ refunded: 3, used: false });
  });

  test('a receipt is refunded once from any address, even if its record is evicted', async () => {
    await startSmall(18_000);
    const { receipt } = await check(FLOODER, 'flooder');
    expect(await refund(FLOODER, receipt)).toEqual({ refunded: 3, used: false });
    await floodReceipts(200);
    await check(FLOODER, 'flooder');
    for (const from of [FLOODER, VICTIM, OTHER_VICTIM]) {
      expect(await refund(from, receipt)).toEqual({ refunded: 0, used: true });
    }
    expect(await used('flooder')).toBe(3);
  });
});
