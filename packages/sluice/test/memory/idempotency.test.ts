import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { ExpiringRecords } from '../../src/idempotency/expiring-records.ts';
import {
  createLimiter,
  definePolicy,
  ManualClock,
  memoryStore,
  type PolicyInput,
} from '../../src/index.ts';

const START_MS = 1_745_000_100_000;

function setUp<const P extends Record<string, PolicyInput>>(policies: P, options = {}) {
  const clock = new ManualClock(START_MS);
  const store = memoryStore(options);
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

describe('ids', () => {
  it.each([
    ['first', ['hour', 'minute', 'second']],
    ['between others', ['minute', 'hour', 'second']],
    ['last', ['second', 'minute', 'hour']],
  ] as const)('an id is kept for exactly the longest window, if this window is %s', (_, order) => {
    const { clock, limiter } = setUp({ second: '10/1s', minute: '10/1m', hour: '10/1h' });
    const limits = order.map((policy) => ({ policy, key: 'a' }) as const);
    const first = limiter.checkSync(limits, { id: 'one' });
    // Calls under other ids, which delete expired records.
    for (let minute = 1; minute < 60; minute++) {
      clock.advance(60_000);
      limiter.checkSync('second', 'b', { id: `call ${minute}` });
      limiter.checkSync('minute', 'b', { id: `call ${minute}` });
    }
    clock.advance(59_999);
    expect(limiter.checkSync(limits, { id: 'one' })).toBe(first);
    clock.advance(1);
    expect(limiter.checkSync(limits, { id: 'one' })).not.toBe(first);
    expect(limiter.peekSync('hour', 'a').remaining).toBe(9);
  });

  it('different calls under one id are charged separately, and each only once', () => {
    const { limiter } = setUp({ p: '10/1m', q: '10/1m' });
    limiter.checkSync('p', 'a', { id: 'one' });
    limiter.checkSync('p', 'a', { id: 'one', cost: 2 });
    limiter.checkSync('p', 'b', { id: 'one' });
    limiter.checkSync('q', 'a', { id: 'one' });
    expect(limiter.peekSync('p', 'a').remaining).toBe(7);
    limiter.checkSync('p', 'a', { id: 'one' });
    limiter.checkSync('p', 'a', { id: 'one', cost: 2 });
    expect(limiter.peekSync('p', 'a').remaining).toBe(7);
  });

  it('calls of policies with different algorithms or windows do not share ids', () => {
    const clock = new ManualClock(START_MS);
    const store = memoryStore();
    const limiterOf = (p: PolicyInput) => createLimiter({ policies: { p }, store, clock });
    limiterOf('10/1m').checkSync('p', 'a', { id: 'one' });
    for (const policy of [
      '10/2m',
      { limit: 10, window: '1m', algorithm: 'token-bucket' },
      { limit: 10, window: '1m', algorithm: 'sliding-buckets', buckets: 7 },
    ] as const) {
      const limiter = limiterOf(policy);
      limiter.checkSync('p', 'a', { id: 'one' });
      expect(limiter.peekSync('p', 'a').remaining).toBe(9);
    }
  });

  it('a reset of any key of a call deletes the id of the call', () => {
    const { limiter } = setUp({ p: '10/1m', q: '10/1m' });
    const both = [
      { policy: 'p', key: 'a' },
      { policy: 'q', key: 'b' },
    ] as const;
    for (const { policy, key } of both) {
      limiter.checkSync(both, { id: 'one' });
      limiter.resetSync(policy, key);
      limiter.checkSync(both, { id: 'one' });
      expect(limiter.peekSync(policy, key).remaining).toBe(9);
    }
  });

  it('ids of long windows do not keep ids of short windows in memory', () => {
    const records = new ExpiringRecords<object>(2 ** 30);
    const sizes: number[] = [];
    records.set('long', 0, {}, 100, 30 * 86_400_000, START_MS);
    for (let name = 1; name <= 50_000; name++) {
      records.set('short', name, {}, 100, 1000, START_MS + name);
      if (name > 5000 && name % 1000 === 0) {
        const found = Array.from({ length: name }, (_, other) => records.get(other)).filter(
          Boolean,
        );
        sizes.push(found.length);
      }
    }
    // One id per ms is kept for a second.
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1001);
    expect(records.get(0)).toBeDefined();
  });

  it('ExpiringRecords evicts the oldest records when the bytes run out', () => {
    const records = new ExpiringRecords<number>(10_000);
    for (let name = 0; name < 5000; name++) records.set('p', name, name, 10, 60_000, START_MS);
    const kept = Array.from({ length: 5000 }, (_, name) => name).filter(
      (name) => records.get(name) !== undefined,
    );
    expect(kept.length).toBeGreaterThanOrEqual(900);
    expect(kept.length).toBeLessThanOrEqual(1000);
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, at) => 5000 - kept.length + at));
  });

  it('a flood of ids in one group evicts no records of another group', () => {
    const records = new ExpiringRecords<number>(100_000);
    for (let name = 0; name < 100; name++) records.set('honest', name, name, 10, 60_000, START_MS);
    for (let name = 1000; name < 100_000; name++)
      records.set('flooded', name, name, 10, 60_000, START_MS);
    for (let name = 0; name < 100; name++) expect(records.get(name)).toBe(name);
  });

  it('ids with many limits and long keys stay within maxIdBytes', { timeout: 60_000 }, () => {
    const source = new URL('../../dist/index.js', import.meta.url).href;
    const script = `
      import { createLimiter } from ${JSON.stringify(source)};
      const limiter = createLimiter({ policies: { p: '1000000/1h' } });
      for (let call = 0; call < 2040; call++) {
        const limits = Array.from({ length: 64 }, (_, place) => ({
          policy: 'p', key: (call + '-' + place).padStart(1024, 'x') }));
        limiter.checkSync(limits, { id: 'id-' + call });
      }
      console.log('done');`;
    const node = [
      process.execPath,
      ['--max-old-space-size=300', '--input-type=module', '-e', script],
    ];
    expect(execFileSync(...(node as [string, string[]]), { encoding: 'utf8' })).toBe('done\n');
  });
});

describe('receipts', () => {
  const charged = (limiter: ReturnType<typeof setUp<{ p: '10/1m' }>>['limiter'], cost: number) => {
    const decision = limiter.checkSync('p', 'a', { cost });
    if (!decision.allowed) throw new Error('expected an admitted decision');
    return decision.receipt.charges[0];
  };
  const refund = (policy: Parameters<ReturnType<typeof memoryStore>['open']>[0]) => {
    return (charge: { policy: string; key: string; cost: number; atMs: number }) => [
      { policy, params: policy.paramsFor(charge.key), charge, delta: -charge.cost },
    ];
  };

  it('a receipt can be used once, and its record takes no key', () => {
    const { limiter, store } = setUp({ p: '10/1m' });
    const adjustmentsOf = refund(definePolicy('p', '10/1m'));
    const charge = charged(limiter, 3);
    expect(store.adjustOnceSync('r1', adjustmentsOf(charge), START_MS)).toEqual([-3]);
    expect(store.adjustOnceSync('r1', adjustmentsOf(charge), START_MS)).toBeUndefined();
    expect(store.size).toBe(1);
    expect(limiter.peekSync('p', 'a').remaining).toBe(10);
  });

  it('3,000 used receipts evict no key', () => {
    const { limiter, store } = setUp({ p: '10/1m' }, { maxKeys: 100 });
    const adjustmentsOf = refund(definePolicy('p', '10/1m'));
    for (let key = 0; key < 50; key++) limiter.checkSync('p', `client-${key}`, { cost: 10 });
    const charge = charged(limiter, 1);
    for (let id = 0; id < 3000; id++) {
      store.adjustOnceSync(`receipt-${id}`, adjustmentsOf(charge), START_MS);
    }
    expect(store.evicted).toBe(0);
    for (let key = 0; key < 50; key++) {
      expect(limiter.peekSync('p', `client-${key}`).remaining).toBe(0);
    }
  });

  it('when maxIdBytes are used up, older receipts count as used', () => {
    const { clock, limiter, store } = setUp({ p: '10/1m' }, { maxIdBytes: 16_000 });
    const adjustmentsOf = refund(definePolicy('p', '10/1m'));
    const first = charged(limiter, 1);
    expect(store.adjustOnceSync('first', adjustmentsOf(first), START_MS)).toEqual([-1]);
    for (let id = 0; id < 500; id++) {
      clock.advance(1);
      const charge = charged(limiter, 1);
      expect(store.adjustOnceSync(`r-${id}`, adjustmentsOf(charge), clock.now())).toEqual([-1]);
    }
    charged(limiter, 5);
    expect(store.adjustOnceSync('first', adjustmentsOf(first), clock.now())).toBeUndefined();
    expect(limiter.peekSync('p', 'a').remaining).toBe(5);
  });

  it('a reset of a key deletes the records of used receipts of the key', () => {
    const { limiter, store } = setUp({ p: '10/1m' });
    const adjustmentsOf = refund(definePolicy('p', '10/1m'));
    store.adjustOnceSync('r', adjustmentsOf(charged(limiter, 3)), START_MS);
    limiter.resetSync('p', 'a');
    expect(store.adjustOnceSync('r', adjustmentsOf(charged(limiter, 3)), START_MS)).toEqual([-3]);
  });
});
