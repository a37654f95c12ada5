import { type CheckResult, memoryStore, type Store } from 'sluice';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { startRedis } from '../../../tools/servers/redis.mjs';
import type { PolicyConfig } from '../src/config/model.ts';
import { DecisionService, type LimitRequest, type NamedReceipt } from '../src/decision-service.ts';
import { receiptOf } from '../src/receipts.ts';
import { openStore } from '../src/stores/index.ts';
import { fallibleStore } from './fallible-store.ts';
import { policy, settingsOf } from './running.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'], now: 1_763_200_000_000 }));
afterEach(() => vi.useRealTimers());

const pass = (ms: number): unknown => vi.setSystemTime(Date.now() + ms);

const MAX_ID_LENGTH = 1000;

/** Charges limits, under an id if given, and returns the receipt. */
async function charge(
  decisionService: DecisionService,
  limits: readonly LimitRequest[],
  id?: string,
): Promise<NamedReceipt> {
  const receipt = receiptOf(
    await decisionService.decide(decisionService.limits(limits), { id }),
    id,
  );
  expect(receipt).toBeDefined();
  return receipt!;
}

/** One store replies synchronously, the other asynchronously. */
const stores: readonly [string, () => Store][] = [
  ['that replies synchronously', () => memoryStore()],
  ['that replies asynchronously', () => fallibleStore().store],
];

describe.each(stores)('receipts of checks with an id, with a store %s', (_, open) => {
  const policies = [
    policy('a', 10, '1m'),
    policy('b', 10, '1h'),
    policy('watched', 10, '1m', { shadow: true }),
  ];
  const decisionServiceOf = (store = open()): DecisionService =>
    new DecisionService(store, policies);

  test('a receipt refunds only its own charge', async () => {
    const decisionService = decisionServiceOf();
    const checks: readonly (readonly LimitRequest[])[] = [
      [{ policy: 'a', key: 'k' }],
      [{ policy: 'b', key: 'k' }],
      [{ policy: 'a', key: 'k2' }],
      [{ policy: 'a', key: 'k', cost: 2 }],
      [
        { policy: 'b', key: 'k' },
        { policy: 'a', key: 'k' },
      ],
    ];
    const receipts: NamedReceipt[] = [];
    for (const limits of checks) receipts.push(await charge(decisionService, limits, 'X'));
    const changes: number[] = [];
    for (const receipt of receipts) changes.push((await decisionService.refund(receipt)).change);
    expect(changes).toEqual([-1, -1, -1, -2, -2]);
    for (const receipt of receipts) expect((await decisionService.refund(receipt)).used).toBe(true);
  });

  test('a charge with the same id in a later window has another receipt id', async () => {
    const decisionService = decisionServiceOf();
    const limits = [{ policy: 'a', key: 'k' }];
    const first = await charge(decisionService, limits, 'X');
    expect((await decisionService.refund(first)).change).toBe(-1);
    pass(60_000);
    const second = await charge(decisionService, limits, 'X');
    expect(await decisionService.refund(second)).toEqual({ change: -1, used: false });
    expect((await decisionService.refund(second)).used).toBe(true);
  });

  test('a receipt is used once over all processes', async () => {
    const store = open();
    const limits = [{ policy: 'a', key: 'k' }];
    const receipts = [await charge(decisionServiceOf(store), limits, 'X')];
    pass(59_000);
    receipts.push(await charge(decisionServiceOf(store), limits, 'X'));
    expect(receipts[1]).toEqual(receipts[0]);
    expect((await decisionServiceOf(store).refund(receipts[1])).change).toBe(-1);
    expect((await decisionServiceOf(store).refund(receipts[0])).used).toBe(true);
  });

  test('each charge under one id has its own receipt id', () => {
    const ids = new Set<string>();
    for (let at = 0; at < 100_000; at++) {
      const [key, atMs] = [`key-${at % 100}`, 1_763_200_000_000 + Math.floor(at / 100)];
      const limit = { policy: 'a', key, cost: 1, atMs };
      const result = {
        ...limit,
        allowed: true,
        receipt: { charges: [limit] },
      } as unknown as CheckResult;
      ids.add(receiptOf({ allowed: true, result, shadow: [], peek: false }, 'X')!.id);
    }
    expect(ids.size).toBe(100_000);
  });

  test('a later shadow charge under the same id does not change the receipt id', async () => {
    const decisionService = decisionServiceOf();
    const limits = [
      { policy: 'b', key: 'k' },
      { policy: 'watched', key: 'k' },
    ];
    const first = await charge(decisionService, limits, 'X');
    expect((await decisionService.refund(first)).change).toBe(-2);
    pass(60_000);
    const again = await charge(decisionService, limits, 'X');
    expect(again.charges[0]).toEqual(first.charges[0]);
    expect(await decisionService.refund(again)).toEqual({ change: 0, used: true });
  });

  test('check ids of the maximum length have distinct receipts', async () => {
    const decisionService = decisionServiceOf();
    const start = 'x'.repeat(MAX_ID_LENGTH - 2);
    for (const id of [`${start}\u{1f600}`, `${start}\u{1f601}`]) {
      const receipt = await charge(decisionService, [{ policy: 'a', key: 'k' }], id);
      expect(Buffer.from(receipt.id).toString()).toBe(receipt.id);
      expect((await decisionService.refund(receipt)).change).toBe(-1);
    }
  });
});

test('on Redis, charges of several policies under one id have separate receipts', async () => {
  vi.useRealTimers();
  const redis = await startRedis();
  const settings = settingsOf({ store: redis.url, deadlineMs: 5000, onFailure: 'throw' });
  const listeners = { onWarning: () => {}, onConnection: () => {} };
  const stores = [await openStore(settings, listeners), await openStore(settings, listeners)];
  const policies = [
    policy('a', 10, '1s'),
    policy('b', 10, '1h'),
    policy('bucket', 1, '1s', { algorithm: 'token-bucket', burst: 100 }),
  ];
  const [one, other] = stores.map(({ store }) => new DecisionService(store, policies));
  for (const decisionService of [one, other])
    await vi.waitUntil(() => decisionService.probe(), { timeout: 20_000 });
  const ofA = [{ policy: 'a', key: 'k' }];
  const ofB = [{ policy: 'b', key: 'k' }];
  const ofBucket = [{ policy: 'bucket', key: 'k', cost: 50 }];
  const first = await charge(one, ofA, 'X');
  const second = await charge(one, ofB, 'X');
  await charge(one, ofBucket);
  const third = await charge(one, ofBucket, 'X');
  expect(await charge(other, ofB, 'X')).toEqual(second);
  expect((await one.refund(first)).used).toBe(false);
  expect(await one.refund(second)).toEqual({ change: -1, used: false });
  expect(await other.refund(second)).toEqual({ change: 0, used: true });
  // The bucket refills one token per second meanwhile.
  expect((await other.refund(third)).change).toBeLessThanOrEqual(-40);
  await vi.waitUntil(() => Date.now() > third.charges[0].atMs + 2300, { timeout: 20_000 });
  expect(await one.refund(third)).toEqual({ change: 0, used: true });
  const later = await charge(other, ofA, 'X');
  expect(later.id).not.toBe(first.id);
  expect((await other.refund(later)).used).toBe(false);
  for (const { close } of stores) await close();
  await redis.stop();
});

describe('used receipts', () => {
  const other = { policy: 'p', key: 'k' };

  test('a used receipt is stored until the token bucket has refilled the charge', async () => {
    const bucket = policy('p', 1, '1s', { algorithm: 'token-bucket', burst: 100 });
    const decisionService = new DecisionService(memoryStore(), [bucket]);
    await charge(decisionService, [{ ...other, cost: 50 }]);
    const receipt = await charge(decisionService, [{ ...other, cost: 50 }]);
    expect((await decisionService.refund(receipt)).change).toBe(-50);
    for (let passedMs = 2300; passedMs < 50_000; passedMs += 2300) {
      pass(2300);
      expect(await decisionService.refund(receipt)).toEqual({ change: 0, used: true });
    }
    pass(50_000);
    expect((await decisionService.refund(receipt)).change).toBe(0);
  });

  test.each([
    ['fixed-window', {}],
    ['sliding-log', {}],
    ['sliding-counter', {}],
    ['sliding-buckets', { buckets: 1 }],
    ['token-bucket', {}],
    ['token-bucket', { burst: 300 }],
  ])('a used receipt of a busy %s policy with %o refunds nothing', async (algorithm, more) => {
    const decisionService = new DecisionService(memoryStore(), [
      policy('p', 30, '10s', { algorithm, ...more }),
    ]);
    await charge(decisionService, [{ ...other, cost: 10 }]);
    const receipt = await charge(decisionService, [{ ...other, cost: 5 }]);
    expect((await decisionService.refund(receipt)).change).toBe(-5);
    for (let call = 0; call < 500; call++) {
      pass(977);
      await decisionService.decide(decisionService.limits([{ ...other, cost: 3 }]));
      expect((await decisionService.refund(structuredClone(receipt))).change).toBe(0);
    }
  });

  test('a used receipt stays used after an override of its key', async () => {
    const bucket = policy('p', 10, '1s', { algorithm: 'token-bucket', burst: 1000 });
    const decisionService = new DecisionService(memoryStore(), [bucket]);
    await charge(decisionService, [{ ...other, cost: 500 }]);
    const receipt = await charge(decisionService, [{ ...other, cost: 500 }]);
    expect((await decisionService.refund(receipt)).change).toBe(-500);
    decisionService.overrides.set({ ...other, limit: 2 });
    expect((await decisionService.refund(receipt)).used).toBe(true);
  });

  test('a used receipt is stored even with the longest windows', async () => {
    for (const window of ['18250d', '18251d', '36500d']) {
      const decisionService = new DecisionService(memoryStore(), [policy('p', 10, window)]);
      const receipt = await charge(decisionService, [other]);
      expect(await decisionService.refund(receipt)).toEqual({ change: -1, used: false });
      expect(await decisionService.refund(receipt)).toEqual({ change: 0, used: true });
    }
  });
});

describe('late receipts', () => {
  const bucket = (limit: number, more: object = {}): PolicyConfig =>
    policy('p', limit, '1s', { algorithm: 'token-bucket', ...more });
  const busy = async (decisionService: DecisionService, seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      pass(1000);
      await charge(decisionService, [{ policy: 'p', key: 'k', cost: 10 }]);
    }
  };

  test('a late receipt refunds the part that a token bucket has not refilled', async () => {
    const decisionService = new DecisionService(memoryStore(), [bucket(10)]);
    const receipt = await charge(decisionService, [{ policy: 'p', key: 'k', cost: 10 }]);
    pass(300);
    await charge(decisionService, [{ policy: 'p', key: 'k', cost: 3 }]);
    expect(await decisionService.refund(receipt)).toEqual({ change: -7, used: false });
  });

  test('a late receipt refunds nothing if the bucket has refilled the charge', async () => {
    const decisionService = new DecisionService(memoryStore(), [bucket(10)]);
    const receipt = await charge(decisionService, [{ policy: 'p', key: 'k', cost: 10 }]);
    await busy(decisionService, 1);
    expect(await decisionService.refund(receipt)).toEqual({ change: 0, used: false });
  });

  test('a late settle still charges the actual cost', async () => {
    const decisionService = new DecisionService(memoryStore(), [bucket(10)]);
    const receipt = await charge(decisionService, [{ policy: 'p', key: 'k', cost: 10 }]);
    await busy(decisionService, 60);
    expect((await decisionService.settle(receipt, 15)).change).toBe(5);
  });
});

test('used receipts occupy no key and evict no counter', async () => {
  const store = memoryStore({ maxKeys: 1000 });
  const decisionService = new DecisionService(store, [
    policy('clients', 10, '1h'),
    policy('work', 1_000_000, '1h'),
  ]);
  const clients = Array.from({ length: 50 }, (_, at) => ({ policy: 'clients', key: `c${at}` }));
  for (const client of clients) await charge(decisionService, [{ ...client, cost: 4 }]);
  for (let call = 0; call < 3000; call++) {
    const receipt = await charge(decisionService, [{ policy: 'work', key: 'k', cost: 2 }]);
    expect((await decisionService.settle(receipt, 1)).change).toBe(-1);
  }
  expect([store.size, store.evicted]).toEqual([51, 0]);
  for (const client of clients) {
    expect((await decisionService.inspect('clients', client.key))?.used).toBe(4);
  }
});
