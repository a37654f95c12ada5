import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  type Decision,
  ManualClock,
  memoryStore,
  type Policies,
  type Receipt,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;
const jobs = { concurrency: 2, lease: 1000 } as const;
const perSecond = { limit: 5, window: 1000 } as const;

function setUp(store = memoryStore()) {
  const clock = new ManualClock(START_MS);
  return { clock, limiter: createLimiter({ policies: { jobs, perSecond }, clock, store }) };
}

function receiptOf(decision: Decision): Receipt {
  if (!decision.allowed) throw new Error('expected an admitted decision');
  return decision.receipt;
}

const copyOf = <T>(value: T): T => JSON.parse(JSON.stringify(value));
const BOTH = [
  { policy: 'jobs', key: 'a' },
  { policy: 'perSecond', key: 'a', cost: 2 },
] as const;

describe('release', () => {
  it('release frees the slot and returns true', () => {
    const { limiter } = setUp();
    const first = receiptOf(limiter.checkSync('jobs', 'a'));
    limiter.checkSync('jobs', 'a');
    expect(limiter.checkSync('jobs', 'a').allowed).toBe(false);
    expect(limiter.releaseSync(first)).toBe(true);
    expect(limiter.checkSync('jobs', 'a').allowed).toBe(true);
  });

  it('a second release returns false and frees no other slot of the same millisecond', () => {
    const { limiter } = setUp();
    const [first] = [limiter.checkSync('jobs', 'a'), limiter.checkSync('jobs', 'a')];
    expect(limiter.releaseSync(receiptOf(first))).toBe(true);
    expect(limiter.releaseSync(copyOf(receiptOf(first)))).toBe(false);
    expect(limiter.refundSync(receiptOf(first))).toBe(0);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(1);
  });

  it('a release after the lease returns false and frees no other slot', () => {
    const { clock, limiter } = setUp();
    const old = receiptOf(limiter.checkSync('jobs', 'a'));
    clock.advance(1000);
    limiter.checkSync('jobs', 'a', { cost: 2 });
    expect(limiter.releaseSync(old)).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(0);
  });

  it('a release at the last millisecond of the lease returns true', () => {
    const { clock, limiter } = setUp();
    const held = receiptOf(limiter.checkSync('jobs', 'a'));
    clock.advance(999);
    expect(limiter.releaseSync(held)).toBe(true);
  });

  it('a release leaves the window charges of the receipt', () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync(BOTH));
    expect(limiter.releaseSync(receipt)).toBe(true);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(2);
    expect(limiter.peekSync('perSecond', 'a').remaining).toBe(3);
  });

  it('a receipt with a hold can be used after JSON serialization', () => {
    const { limiter } = setUp();
    const receipt = copyOf(receiptOf(limiter.checkSync(BOTH)));
    expect(limiter.renewSync(receipt)).toBe(true);
    expect(limiter.releaseSync(receipt)).toBe(true);
    expect(limiter.refundSync(receipt)).toBe(2);
  });

  it('a fence of another key releases nothing', () => {
    const { limiter } = setUp();
    const [charge] = receiptOf(limiter.checkSync('jobs', 'a')).charges;
    limiter.checkSync('jobs', 'b');
    expect(limiter.releaseSync({ charges: [{ ...charge, key: 'b' }] })).toBe(false);
    const { fence, ...withoutFence } = charge;
    expect(limiter.releaseSync({ charges: [withoutFence] })).toBe(false);
    expect(limiter.releaseSync({ charges: [{ ...charge, fence: fence! + 5 }] })).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(1);
    expect(limiter.peekSync('jobs', 'b').remaining).toBe(1);
  });

  it('release of several holds returns false if one of the holds has ended', () => {
    const { limiter } = setUp();
    const receipt = receiptOf(
      limiter.checkSync([
        { policy: 'jobs', key: 'a' },
        { policy: 'jobs', key: 'b' },
      ]),
    );
    limiter.resetSync('jobs', 'b');
    expect(limiter.releaseSync(receipt)).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(2);
  });

  it('release and renew work on an asynchronous store', async () => {
    const store = promisesOnly(memoryStore());
    const limiter = createLimiter({ policies: { jobs }, store, clock: new ManualClock(START_MS) });
    const receipt = receiptOf(await limiter.check('jobs', 'a'));
    expect(await limiter.renew(receipt)).toBe(true);
    expect(await limiter.release(receipt)).toBe(true);
    expect(await limiter.release(receipt)).toBe(false);
    expect(await limiter.renew(receipt)).toBe(false);
  });
});

describe('renew', () => {
  it('renew starts the lease again', () => {
    const { clock, limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync('jobs', 'a'));
    for (let time = 0; time < 5; time++) {
      clock.advance(999);
      expect(limiter.renewSync(receipt)).toBe(true);
      expect(limiter.peekSync('jobs', 'a')).toMatchObject({ remaining: 1, resetAfterMs: 1000 });
    }
    clock.advance(1000);
    expect(limiter.renewSync(receipt)).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(2);
  });

  it('a renewed hold can be released by its first receipt', () => {
    const { clock, limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync('jobs', 'a', { cost: 2 }));
    clock.advance(500);
    limiter.renewSync(receipt);
    clock.advance(900);
    expect(limiter.releaseSync(receipt)).toBe(true);
    expect(limiter.peekSync('jobs', 'a')).toMatchObject({ remaining: 2, resetAfterMs: 0 });
  });

  it('renew keeps a hold that exceeds a lowered limit', () => {
    let most = 4;
    const clock = new ManualClock(START_MS);
    const policies = { p: { concurrency: () => most, lease: 1000 } };
    const limiter = createLimiter({ policies, clock });
    const receipt = receiptOf(limiter.checkSync('p', 'a', { cost: 4 }));
    most = 1;
    clock.advance(500);
    expect(limiter.renewSync(receipt)).toBe(true);
    expect(limiter.peekSync('p', 'a', { cost: 1 }).retryAfterMs).toBe(1000);
  });
});

describe('refund and settle', () => {
  it('refund releases the hold and refunds the window charges, once', () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync(BOTH));
    expect(limiter.refundSync(receipt)).toBe(3);
    expect(limiter.refundSync(receipt)).toBe(0);
    expect(limiter.peekSync(BOTH.map(({ policy, key }) => ({ policy, key }))).resetAfterMs).toBe(0);
  });

  it('settle changes the window charges and not the hold', () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync(BOTH));
    expect(limiter.settleSync(receipt, 4)).toBe(2);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(1);
    expect(limiter.peekSync('perSecond', 'a').remaining).toBe(1);
  });

  it('settle with an array takes one cost per limit and ignores the cost of the hold', () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync(BOTH));
    expect(limiter.settleSync(receipt, [0, 1])).toBe(-1);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(1);
  });

  it('a refund after settle releases the hold and leaves the window charges', async () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync(BOTH));
    await limiter.settle(receipt, 1);
    expect(await limiter.refund(receipt)).toBe(1);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(2);
    expect(limiter.peekSync('perSecond', 'a').remaining).toBe(4);
  });

  it('a refund that is retried after settle refunds no window charges', async () => {
    const inner = memoryStore();
    let isDown = false;
    const store = {
      ...promisesOnly(inner),
      adjust: async (...args: Parameters<typeof inner.adjust>) => {
        if (isDown) throw Object.assign(new Error('down'), { notDone: true });
        return inner.adjust(...args);
      },
    };
    const clock = new ManualClock(START_MS);
    const limiter = createLimiter({ policies: { jobs, perSecond }, store, clock });
    const receipt = receiptOf(await limiter.check(BOTH));
    await limiter.settle(receipt, 1);
    isDown = true;
    await expect(limiter.refund(receipt)).rejects.toThrow('down');
    isDown = false;
    expect(await limiter.refund(receipt)).toBe(1);
    expect((await limiter.peek('perSecond', 'a')).remaining).toBe(4);
  });
});

describe('decisions of concurrency limits', () => {
  it('a check of several limits charges all of them or none', () => {
    const { limiter } = setUp();
    limiter.checkSync('jobs', 'a', { cost: 2 });
    const denied = limiter.checkSync(BOTH);
    expect(denied).toMatchObject({ allowed: false, policy: 'jobs', retryAfterMs: 1000 });
    expect(limiter.peekSync('perSecond', 'a').remaining).toBe(5);
    limiter.checkSync('perSecond', 'b', { cost: 5 });
    const other = BOTH.map((limit) => ({ ...limit, key: 'b' }));
    expect(limiter.checkSync(other).allowed).toBe(false);
    expect(limiter.peekSync('jobs', 'b').remaining).toBe(2);
  });

  it('only an admitted concurrency limit has a fence', () => {
    const { limiter } = setUp();
    const decision = limiter.checkSync([...BOTH].reverse());
    expect(decision.limits.map(({ fence }) => fence)).toEqual([undefined, decision.fence]);
    expect(decision.fence).toBe(START_MS * 1024);
    expect(receiptOf(decision).charges.map(({ fence }) => fence)).toEqual([
      undefined,
      decision.fence,
    ]);
    expect(copyOf(decision).receipt).toEqual(receiptOf(decision));
    for (const other of [
      limiter.peekSync('jobs', 'a'),
      limiter.checkSync('perSecond', 'a'),
      limiter.checkSync('jobs', 'a', { cost: 2 }),
    ]) {
      expect(other).not.toHaveProperty('fence');
    }
  });

  it('fences increase strictly, also after a pause and after the clock stepped back', () => {
    const { clock, limiter } = setUp();
    const fences: number[] = [];
    for (const stepMs of [0, 0, 1, -500, 0, 10_000, 86_400_000, -3000, 0]) {
      clock.set(clock.now() + stepMs);
      const decision = limiter.checkSync('jobs', 'a');
      if (decision.allowed) fences.push(decision.fence!);
      if (decision.allowed) limiter.releaseSync(decision.receipt);
    }
    expect(fences.length).toBeGreaterThan(7);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  });

  it('a call repeated under its id takes one hold and has the fence of the first call', () => {
    const { clock, limiter } = setUp();
    const first = limiter.checkSync('jobs', 'a', { id: 'x', label: 'job 1' });
    clock.advance(10);
    const again = limiter.checkSync('jobs', 'a', { id: 'x' });
    expect(again).toMatchObject({ allowed: true, fence: first.fence! });
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(1);
    expect(limiter.inspectSync('jobs', 'a')?.holds).toMatchObject([{ label: 'job 1' }]);
  });

  it('reset releases all holds of one key, and their receipts free nothing', () => {
    const { limiter } = setUp();
    const old = receiptOf(limiter.checkSync('jobs', 'a', { cost: 2 }));
    const other = receiptOf(limiter.checkSync('jobs', 'b'));
    limiter.resetSync('jobs', 'a');
    limiter.checkSync('jobs', 'a', { cost: 2 });
    expect(limiter.releaseSync(old)).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(0);
    expect(limiter.releaseSync(other)).toBe(true);
  });

  it('a clock that steps back frees no hold and admits nothing twice', () => {
    const { clock, limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync('jobs', 'a', { cost: 2 }));
    clock.set(START_MS - 900);
    expect(limiter.checkSync('jobs', 'a').allowed).toBe(false);
    expect(limiter.renewSync(receipt)).toBe(true);
    expect(limiter.releaseSync(receipt)).toBe(true);
    expect(limiter.checkSync('jobs', 'a').allowed).toBe(true);
  });

  it('holds that were taken while the clock was a day ahead are dropped', () => {
    const { clock, limiter } = setUp();
    clock.set(START_MS + 86_400_000);
    const ahead = receiptOf(limiter.checkSync('jobs', 'a', { cost: 2 }));
    clock.set(START_MS);
    expect(limiter.checkSync('jobs', 'a', { cost: 2 }).allowed).toBe(true);
    expect(limiter.releaseSync(ahead)).toBe(false);
    expect(limiter.peekSync('jobs', 'a').remaining).toBe(0);
  });

  it('inspect returns the current holds with labels, sorted by expiry', () => {
    const { clock, limiter } = setUp();
    const first = limiter.checkSync('jobs', 'a', { label: 'job 7' });
    clock.advance(100);
    const second = limiter.checkSync('jobs', 'a');
    clock.advance(100);
    limiter.renewSync(receiptOf(first));
    limiter.checkSync('jobs', 'b');
    expect(limiter.inspectSync('jobs', 'a')).toMatchObject({
      algorithm: 'concurrency',
      used: 2,
      remaining: 0,
      holds: [
        { fence: second.fence, cost: 1, atMs: START_MS + 100, expiresAtMs: START_MS + 1100 },
        {
          fence: first.fence,
          cost: 1,
          atMs: START_MS + 200,
          expiresAtMs: START_MS + 1200,
          label: 'job 7',
        },
      ],
    });
    clock.advance(950);
    expect(limiter.inspectSync('jobs', 'a')?.holds).toHaveLength(1);
    clock.advance(50);
    expect(limiter.inspectSync('jobs', 'a')).toBeUndefined();
  });

  it('inspect returns the newest 1,000 holds', () => {
    const policies = { many: { concurrency: 5000 } };
    const limiter = createLimiter({ policies, clock: new ManualClock(START_MS) });
    const last = Array.from({ length: 1500 }, () => limiter.checkSync('many', 'a')).at(-1);
    const { holds } = limiter.inspectSync('many', 'a')!;
    expect(holds).toHaveLength(1000);
    expect(holds!.at(-1)!.fence).toBe(last!.fence);
  });

  it('the default lease is 30 seconds', () => {
    const policies = { p: { concurrency: 1 } };
    const limiter = createLimiter({ policies, clock: new ManualClock(START_MS) });
    expect(limiter.checkSync('p', 'a').resetAfterMs).toBe(30_000);
  });

  it('a policy whose limit changes keeps its holds', () => {
    const store = memoryStore();
    const clock = new ManualClock(START_MS);
    const open = (concurrency: number) =>
      createLimiter({ policies: { p: { concurrency } } as Policies, store, clock });
    const receipt = receiptOf(open(2).checkSync('p', 'a', { cost: 2 }));
    const larger = open(3);
    expect(larger.peekSync('p', 'a').remaining).toBe(1);
    expect(larger.releaseSync(receipt)).toBe(true);
    expect(larger.peekSync('p', 'a').remaining).toBe(3);
  });
});

describe('misuse of concurrency limits', () => {
  const code = (expected: string) => expect.objectContaining({ code: expected });

  it('release and renew reject a receipt without a hold', async () => {
    const { limiter } = setUp();
    const receipt = receiptOf(limiter.checkSync('perSecond', 'a'));
    const error = code('ERR_INVALID_RECEIPT');
    expect(() => limiter.releaseSync(receipt)).toThrow(error);
    expect(() => limiter.renewSync(receipt)).toThrow('the receipt of a concurrency limit');
    await expect(limiter.release(receipt)).rejects.toThrow(error);
    await expect(limiter.renew(undefined as never)).rejects.toThrow(error);
    await expect(limiter.release({ charges: [] })).rejects.toThrow(error);
  });

  it.each([-1, 1.5, '5', Number.NaN, {}])('release rejects the fence %s', (fence) => {
    const { limiter } = setUp();
    const [charge] = receiptOf(limiter.checkSync('jobs', 'a')).charges;
    const receipt = { charges: [{ ...charge, fence: fence as number }] };
    expect(() => limiter.releaseSync(receipt)).toThrow(code('ERR_INVALID_RECEIPT'));
  });

  it.each([5, '', 'x'.repeat(64)])('the label %j is accepted only if it is text', (label) => {
    const { limiter } = setUp();
    const check = () => limiter.checkSync('jobs', 'a', { label: label as string });
    if (typeof label === 'string') expect(check().allowed).toBe(true);
    else expect(check).toThrow(code('ERR_INVALID_OPTION'));
  });

  it('a label of more than 64 characters is rejected', async () => {
    const { limiter } = setUp();
    const options = { label: 'x'.repeat(65) };
    expect(() => limiter.checkSync('jobs', 'a', options)).toThrow('text of up to 64 characters');
    await expect(limiter.acquire('jobs', 'a', options)).rejects.toThrow(code('ERR_INVALID_OPTION'));
    expect(limiter.inspectSync('jobs', 'a')).toBeUndefined();
  });

  it('createLimiter rejects policies with features that the store does not support', () => {
    const { features: _, ...store } = promisesOnly(memoryStore());
    const unsupported = code('ERR_UNSUPPORTED_POLICY');
    expect(() => createLimiter({ policies: { jobs }, store })).toThrow(unsupported);
    const blocking = { login: { ...perSecond, block: '1m' } } as const;
    expect(() => createLimiter({ policies: blocking, store })).toThrow(
      'The store does not support `block`, which policy `login` has',
    );
    expect(createLimiter({ policies: { perSecond }, store })).toBeDefined();
  });
});
