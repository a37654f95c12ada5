/** Adjustments of charges: order, debts, and stores that fail. */
import { describe, expect, it } from 'vitest';
import type { Limiter, Policies } from '../../src/api.ts';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { Charges } from '../../src/llm/charges.ts';
import { chatObject, chatUsage } from './model-server.ts';
import { chat, post, setUp, turns, until } from './setup.ts';

const POLICIES = { tokens: '1000/1m', money: '1000/1m' } as const;

function charged(tokens: number, money: number) {
  const clock = new ManualClock(1_745_000_100_000);
  const limiter = createLimiter({ policies: POLICIES, clock });
  const limits = [
    { policy: 'tokens', key: 'k', cost: tokens },
    { policy: 'money', key: 'k', cost: money },
  ] as const;
  const { receipt } = limiter.checkSync(limits);
  const used = () => [
    limiter.inspectSync('tokens', 'k')?.used ?? 0,
    limiter.inspectSync('money', 'k')?.used ?? 0,
  ];
  const failing = { times: 0, error: Object.assign(new Error('down'), { notDone: true }) };
  const observed = Object.create(limiter, {
    settle: {
      value: async (...args: Parameters<typeof limiter.settle>) => {
        if (failing.times-- > 0) throw failing.error;
        return limiter.settle(...args);
      },
    },
    check: { value: limiter.check.bind(limiter) },
    peek: { value: limiter.peek.bind(limiter) },
  }) as Limiter<Policies>;
  const charges = new Charges(observed, receipt!.charges, clock);
  return { clock, limiter, used, charges, failing };
}

describe('Charges', () => {
  it('one limit can be refunded while another one is charged', async () => {
    const { charges, used } = charged(100, 100);
    await charges.adjustTo([40, 250]);
    expect([used(), charges.costs]).toEqual([
      [40, 250],
      [40, 250],
    ]);
  });

  it('Charges refunds the latest charges first', async () => {
    const { charges, used, clock } = charged(100, 100);
    clock.advance(30_000);
    await charges.adjustTo([300, 100]);
    clock.advance(29_999);
    expect(used()).toEqual([300, 100]);
    await charges.adjustTo([150, 100]);
    expect(used()).toEqual([150, 100]);
    clock.advance(1);
    // The first charge has expired.
    expect(used()).toEqual([50, 0]);
    await charges.adjustTo([0, 0]);
    expect(used()).toEqual([0, 0]);
  });

  it('costs above the remaining capacity are charged as debt', async () => {
    const { charges, used } = charged(100, 100);
    await charges.adjustTo([1500, 200]);
    expect(used()).toEqual([1500, 200]);
    await charges.adjustTo([20, 20]);
    expect(used()).toEqual([20, 20]);
  });

  it('concurrent adjustments of a charge run in the order of the calls', async () => {
    const { charges, used } = charged(100, 100);
    const all = [200, 300, 50].map((cost) => charges.adjustTo([cost, cost]));
    await Promise.all(all);
    expect(used()).toEqual([50, 50]);
  });

  it('a settlement that the store did not apply is sent again', async () => {
    const { charges, used, clock, failing } = charged(100, 100);
    failing.times = 2;
    const done = charges.adjustTo([10, 10]);
    await turns();
    clock.advance(100);
    await turns();
    clock.advance(1000);
    await done;
    expect([used(), charges.error]).toEqual([[10, 10], undefined]);
  });

  it('a settlement that may have been applied is not sent again', async () => {
    const { charges, used, failing } = charged(100, 100);
    failing.times = 1;
    failing.error = Object.assign(new Error('timeout'), { notDone: false });
    await charges.adjustTo([10, 10]);
    expect(used()).toEqual([100, 100]);
    expect(charges.error).toMatchObject({ message: 'timeout' });
  });
});

describe('llmFetch on a limiter that was closed', () => {
  it('if the limiter was closed, onSettled receives the error of the settlement', async () => {
    const { call, limiter, settled } = setUp({
      fetch: async () => new Response(chatObject('x', chatUsage({ input: 1, output: 1 }))),
    });
    const response = await call('http://model.test/v1/chat/completions', post(chat()));
    await limiter.close();
    await response.text();
    await until(() => settled.length === 1);
    expect(settled[0]).toMatchObject({ ending: 'completed', error: { code: 'ERR_CLOSED' } });
  });
});
