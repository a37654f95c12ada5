import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, type Store } from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;

function setUp(store?: Store) {
  const clock = new ManualClock(START_MS);
  const policies = {
    slots: { concurrency: 1, lease: '1h' },
    rate: '1/1s',
  } as const;
  const limiter = createLimiter({ policies, clock, ...(store && { store }) });
  const served: string[] = [];
  /** Runs a job that records its flow, and holds the slot for a moment. */
  const job = (flow: string, weight?: number): Promise<unknown> =>
    limiter.run('slots', 'a', { flow, weight }, async () => {
      served.push(flow);
      await Promise.resolve();
    });
  return { clock, limiter, served, job };
}

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
};

const countOf = (served: readonly string[], flow: string): number =>
  served.filter((each) => each === flow).length;

/** Jain's fairness index: 1 if all shares are equal, 1 / n if one flow has everything. */
function jain(shares: readonly number[]): number {
  const sum = shares.reduce((total, each) => total + each, 0);
  const squares = shares.reduce((total, each) => total + each * each, 0);
  return (sum * sum) / (shares.length * squares);
}

const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.fail('The promise resolved'),
    (error) => error,
  );

describe.each([
  ['a store in memory', () => undefined],
  ['an asynchronous store', promisesOnly],
])('flows on %s', (_, open) => {
  it('a flow with 10,000 waiters does not delay nine flows with 10 waiters each', async () => {
    const { limiter, served, job } = setUp(open());
    const small = Array.from({ length: 9 }, (_each, at) => `small ${at}`);
    const jobs = [
      ...Array.from({ length: 10_000 }, () => job('large')),
      ...small.flatMap((flow) => Array.from({ length: 10 }, () => job(flow))),
    ];
    for (const each of jobs) each.catch(() => {});
    while (served.length < 100) await turns(1);
    const shares = ['large', ...small].map((flow) => countOf(served.slice(0, 100), flow));
    expect(jain(shares)).toBeGreaterThanOrEqual(0.98);
    await limiter.close();
    await Promise.allSettled(jobs);
  });

  it('flows with weights of 1 and 3 get shares of 1 to 3', async () => {
    const { served, job } = setUp(open());
    const jobs = Array.from({ length: 300 }, () => [job('light', 1), job('heavy', 3)]).flat();
    await Promise.all(jobs);
    expect(countOf(served.slice(0, 200), 'heavy')).toBeGreaterThanOrEqual(148);
    expect(countOf(served.slice(0, 200), 'heavy')).toBeLessThanOrEqual(152);
  });

  it('a call that costs 3 counts as three calls of its flow', async () => {
    const clock = new ManualClock(START_MS);
    const store = open();
    const policies = { slots: { concurrency: 3, lease: '1h' } } as const;
    const limiter = createLimiter({ policies, clock, ...(store && { store }) });
    const served: string[] = [];
    const job = (flow: string, cost: number) =>
      limiter.run('slots', 'a', { flow, cost }, () => void served.push(flow));
    await Promise.all(Array.from({ length: 100 }, () => [job('cheap', 1), job('dear', 3)]).flat());
    expect(countOf(served.slice(0, 100), 'cheap')).toBeGreaterThanOrEqual(73);
    expect(countOf(served.slice(0, 100), 'cheap')).toBeLessThanOrEqual(77);
  });

  it('calls of one flow are served in order of arrival', async () => {
    const { limiter } = setUp(open());
    const served: number[] = [];
    await Promise.all(
      Array.from({ length: 50 }, (_each, at) =>
        limiter.run('slots', 'a', { flow: 'one' }, () => void served.push(at)),
      ),
    );
    expect(served).toEqual(Array.from({ length: 50 }, (_each, at) => at));
  });

  it('a flow gets no additional share for the time in which it was idle', async () => {
    const { served, job } = setUp(open());
    const jobs = Array.from({ length: 50 }, () => job('busy'));
    const late = job('busy').then(() =>
      Promise.all(Array.from({ length: 50 }, () => [job('late'), job('busy')]).flat()),
    );
    await Promise.all([...jobs, late]);
    const from = served.indexOf('late');
    expect(Math.abs(countOf(served.slice(from, from + 20), 'late') - 10)).toBeLessThanOrEqual(1);
  });

  it('an abort rejects the waiting calls of a flow, and other calls are served', async () => {
    const { served, job, limiter } = setUp(open());
    const controller = new AbortController();
    const { signal } = controller;
    const first = limiter.run('slots', 'a', { flow: 'x' }, () => turns(5));
    const aborted = Array.from({ length: 300 }, () =>
      limiter.acquire('slots', 'a', { flow: 'y', signal }),
    );
    const rest = [job('y'), job('z')];
    controller.abort('stop');
    for (const each of aborted) expect(await errorOf(each)).toBe('stop');
    await Promise.all([first, ...rest]);
    expect(served.sort()).toEqual(['y', 'z']);
  });

  it('a waiting call of a flow is denied at its deadline', async () => {
    const { clock, limiter } = setUp(open());
    const held = await limiter.acquire('slots', 'a', { flow: 'x' });
    const waiting = limiter.acquire('slots', 'a', { flow: 'x' });
    const denied = limiter.acquire('slots', 'a', { flow: 'y', maxWaitMs: 500 });
    const later = limiter.acquire('slots', 'a', { flow: 'y', maxWaitMs: 5000 });
    await turns(2);
    clock.advance(500);
    expect(await denied).toMatchObject({ allowed: false });
    await limiter.release(held.receipt!);
    await limiter.release((await waiting).receipt!);
    expect(await later).toMatchObject({ allowed: true });
  });

  it('a call of a flow with maxWaitMs: 0 is denied at once', async () => {
    const { limiter } = setUp(open());
    await limiter.acquire('slots', 'a', { flow: 'x' });
    const waiting = limiter.acquire('slots', 'a', { flow: 'x' });
    waiting.catch(() => {});
    const denied = await limiter.acquire('slots', 'a', { flow: 'y', maxWaitMs: 0 });
    expect(denied.allowed).toBe(false);
    await limiter.close();
  });

  it('close rejects the waiting calls of all flows', async () => {
    const { limiter } = setUp(open());
    await limiter.acquire('slots', 'a', { flow: 'x' });
    const waiting = Array.from({ length: 300 }, (_each, at) =>
      limiter.acquire('slots', 'a', { flow: `flow ${at % 3}` }),
    );
    const errors = Promise.all(waiting.map(errorOf));
    await limiter.close();
    for (const error of await errors) expect(error).toMatchObject({ code: 'ERR_CLOSED' });
  });

  it('calls with a flow and calls without one take turns', async () => {
    const { limiter, served, job } = setUp(open());
    const jobs = Array.from({ length: 20 }, () => job('flow'));
    const plain = limiter.run('slots', 'a', () => void served.push('plain'));
    await Promise.all([...jobs, plain]);
    expect(served.indexOf('plain')).toBeLessThanOrEqual(2);
  });

  it('flows also take turns at a window limit', async () => {
    const { clock, limiter } = setUp(open());
    const served: string[] = [];
    const call = (flow: string) =>
      limiter.acquire('rate', 'a', { flow }).then(() => served.push(flow));
    const calls = [call('x'), call('x'), call('x'), call('x'), call('y'), call('y')];
    for (let second = 0; second < 6; second++) {
      await turns(2);
      clock.advance(1000);
    }
    await Promise.all(calls);
    expect(served.slice(0, 5).sort()).toEqual(['x', 'x', 'x', 'y', 'y']);
  });
});

describe('options of flows', () => {
  it.each([
    [{ flow: '' }],
    [{ flow: 7 }],
    [{ weight: 2 }],
    [{ flow: 'x', weight: 0 }],
    [{ flow: 'x', weight: 1001 }],
    [{ flow: 'x', weight: 1.5 }],
  ])('acquire rejects the flow options %j', async (options) => {
    const { limiter } = setUp();
    const call = limiter.acquire('slots', 'a', options as never);
    expect(await errorOf(call)).toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('a flow of more than 1,024 characters is rejected', async () => {
    const { limiter } = setUp();
    const call = limiter.acquire('slots', 'a', { flow: 'x'.repeat(1025) });
    expect(await errorOf(call)).toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('acquire rejects an invalid maxWaitMs of a call with a flow', async () => {
    const { limiter } = setUp();
    await limiter.acquire('slots', 'a', { flow: 'x' });
    const waiting = limiter.acquire('slots', 'a', { flow: 'x' });
    waiting.catch(() => {});
    const call = limiter.acquire('slots', 'a', { flow: 'x', maxWaitMs: -1 });
    expect(await errorOf(call)).toMatchObject({ code: 'ERR_INVALID_WAIT' });
    await limiter.close();
  });
});
