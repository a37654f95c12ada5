import { describe, expect, it } from 'vitest';
import {
  createLimiter,
  ManualClock,
  memoryStore,
  type RunContext,
  type RunResult,
  SluiceError,
  type Store,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

const START_MS = 1_745_000_100_000;
const LEASE_MS = 3000;

const policies = {
  slots: { concurrency: 2, lease: LEASE_MS },
  rate: '5/1m',
} as const;

function setUp(store?: Store) {
  const clock = new ManualClock(START_MS);
  const limiter = createLimiter({ policies, clock, ...(store && { store }) });
  const held = async (): Promise<number> => (await limiter.inspect('slots', 'a'))?.used ?? 0;
  return { clock, limiter, held };
}

const rejectionOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => expect.fail('The promise resolved'),
    (error) => error,
  );

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    clock.advance(100);
    await settle();
  }
}

/** Starts a run that ends when `end` or `fail` is called. */
function start(run: (work: (context: RunContext) => Promise<string>) => Promise<unknown>) {
  let end: (value: string) => void = () => {};
  let fail: (error: unknown) => void = () => {};
  let context: RunContext | undefined;
  const done = run((given) => {
    context = given;
    return new Promise<string>((resolve, reject) => {
      end = resolve;
      fail = reject;
    });
  }) as Promise<RunResult<string>>;
  // The tests that expect a rejection await `done`.
  done.catch(() => {});
  return {
    done,
    end: (value: string) => end(value),
    fail: (error: unknown) => fail(error),
    get context() {
      return context;
    },
  };
}

const codeOf = (signal: AbortSignal): unknown =>
  signal.reason instanceof SluiceError ? signal.reason.code : signal.reason;

/** A store whose adjustments fail while `isDown`, and are recorded. */
function failing() {
  const store = promisesOnly();
  const state = { isDown: false, sent: [] as string[] };
  const adjust: Store['adjust'] = async (adjustments, nowMs) => {
    for (const { renew } of adjustments) state.sent.push(renew ? 'renew' : 'release');
    if (state.isDown) throw new Error('down');
    return store.adjust(adjustments, nowMs);
  };
  return { store: { ...store, adjust } as Store, state };
}

describe.each([
  ['a store in memory', () => undefined],
  ['an asynchronous store', promisesOnly],
])('run on %s', (_, open) => {
  it('run resolves to the value of its function, and releases the hold', async () => {
    const { limiter, held } = setUp(open());
    const seen: number[] = [];
    const result = await limiter.run('slots', 'a', async ({ fence, decision }) => {
      seen.push(await held());
      expect(fence).toBe(decision.fence);
      return 'done';
    });
    expect(result).toMatchObject({ allowed: true, value: 'done' });
    expect(result.decision.fence).toBeGreaterThan(0);
    expect(seen).toEqual([1]);
    await settle();
    expect(await held()).toBe(0);
  });

  it('run accepts a function that returns no promise', async () => {
    const { limiter } = setUp(open());
    expect(await limiter.run('slots', 'a', { cost: 2 }, () => 7)).toMatchObject({ value: 7 });
  });

  it('run rejects with the error of its function, and releases the hold', async () => {
    const { limiter, held } = setUp(open());
    const error = new Error('failed');
    const thrown = limiter.run('slots', 'a', () => {
      throw error;
    });
    expect(await rejectionOf(thrown)).toBe(error);
    await settle();
    expect(await held()).toBe(0);
  });

  it('run never has more functions active than the limit', async () => {
    const { limiter } = setUp(open());
    let active = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      active++;
      most = Math.max(most, active);
      await settle();
      active--;
    };
    const results = await Promise.all(
      Array.from({ length: 300 }, () => limiter.run('slots', 'a', work)),
    );
    expect(results.every(({ allowed }) => allowed)).toBe(true);
    expect(most).toBe(2);
  });

  it('run resolves to a denial if the wait exceeds maxWaitMs', async () => {
    const { clock, limiter } = setUp(open());
    const first = start((work) => limiter.run('slots', 'a', { cost: 2 }, work));
    let calls = 0;
    const denied = limiter.run('slots', 'a', { maxWaitMs: 500 }, () => calls++);
    await settle();
    await pass(clock, 500);
    expect(await denied).toMatchObject({ allowed: false, decision: { allowed: false } });
    expect(calls).toBe(0);
    first.end('');
    await first.done;
  });

  it('run renews its hold for as long as its function runs', async () => {
    const { clock, limiter, held } = setUp(open());
    const long = start((work) => limiter.run('slots', 'a', work));
    await settle();
    await pass(clock, 10 * LEASE_MS);
    expect(await held()).toBe(1);
    expect(long.context!.signal.aborted).toBe(false);
    long.end('late');
    expect(await long.done).toMatchObject({ value: 'late' });
    await settle();
    expect(await held()).toBe(0);
  });

  it('the signal of run aborts with ERR_LEASE_LOST if the hold no longer exists', async () => {
    const { clock, limiter } = setUp(open());
    const run = start((work) => limiter.run('slots', 'a', work));
    await settle();
    const { signal } = run.context!;
    await limiter.reset('slots', 'a');
    await pass(clock, LEASE_MS / 3);
    expect(codeOf(signal)).toBe('ERR_LEASE_LOST');
    run.end('anyway');
    expect(await run.done).toMatchObject({ allowed: true, value: 'anyway' });
  });

  it('a pause between a decision and its work aborts the signal before the work', async () => {
    const { clock, limiter } = setUp(open());
    const paused = start((work) => limiter.run('slots', 'a', work));
    await settle();
    const { signal } = paused.context!;
    // Listeners are called after the decision.
    const remove = limiter.onDecision(() => clock.set(clock.now() + LEASE_MS));
    await limiter.run('rate', 'a', () => expect(codeOf(signal)).toBe('ERR_LEASE_LOST'));
    remove();
    const other = start((work) => limiter.run('slots', 'b', work));
    await settle();
    limiter.onDecision(() => clock.set(clock.now() + LEASE_MS));
    await limiter.acquire('rate', 'b');
    expect(codeOf(other.context!.signal)).toBe('ERR_LEASE_LOST');
    for (const each of [paused, other]) {
      each.end('');
      await each.done;
    }
  });

  it('after a pause longer than the lease, run aborts before the next admission', async () => {
    const { clock, limiter } = setUp(open());
    const paused = start((work) => limiter.run('slots', 'a', work));
    await settle();
    const { signal } = paused.context!;
    // As SIGSTOP: time passes, and no timer fires.
    clock.set(START_MS + LEASE_MS);
    let wasAborted: boolean | undefined;
    await limiter.run('slots', 'b', () => {
      wasAborted = signal.aborted;
    });
    expect(wasAborted).toBe(true);
    expect(codeOf(signal)).toBe('ERR_LEASE_LOST');
    paused.end('');
    await paused.done;
  });

  it('the signal of run aborts before the lease ends in the store', async () => {
    const { clock, limiter, held } = setUp(open());
    const run = start((work) => limiter.run('slots', 'a', work));
    await settle();
    const { signal } = run.context!;
    clock.set(START_MS + LEASE_MS - 20);
    expect(await held()).toBe(1);
    await limiter.acquire('rate', 'b');
    expect(signal.aborted).toBe(true);
    run.end('');
    await run.done;
  });

  it('an abort of the `signal` option reaches the function, and the hold is released', async () => {
    const { limiter, held } = setUp(open());
    const controller = new AbortController();
    const { signal } = controller;
    const run = start((work) => limiter.run('slots', 'a', { signal }, work));
    await settle();
    controller.abort('stop');
    expect(run.context!.signal.reason).toBe('stop');
    run.fail(run.context!.signal.reason);
    expect(await rejectionOf(run.done)).toBe('stop');
    await settle();
    expect(await held()).toBe(0);
  });

  it('after an abort, run does not renew the hold, which ends with the lease', async () => {
    const { clock, limiter, held } = setUp(open());
    const controller = new AbortController();
    const run = start((work) => limiter.run('slots', 'a', { signal: controller.signal }, work));
    await settle();
    controller.abort('stop');
    await pass(clock, LEASE_MS);
    expect(await held()).toBe(0);
    run.end('');
    await run.done;
  });

  it('run rejects if it is aborted while it waits, and does not call the function', async () => {
    const { limiter, held } = setUp(open());
    const first = start((work) => limiter.run('slots', 'a', { cost: 2 }, work));
    const controller = new AbortController();
    let calls = 0;
    const waiting = limiter.run('slots', 'a', { signal: controller.signal }, () => calls++);
    await settle();
    controller.abort('stop');
    expect(await rejectionOf(waiting)).toBe('stop');
    first.end('');
    await first.done;
    await settle();
    expect(calls).toBe(0);
    expect(await held()).toBe(0);
  });

  it('run without a concurrency limit only charges', async () => {
    const { clock, limiter } = setUp(open());
    const run = start((work) => limiter.run('rate', 'a', { cost: 3 }, work));
    await settle();
    expect(run.context!.fence).toBeUndefined();
    await pass(clock, 10 * LEASE_MS);
    expect(run.context!.signal.aborted).toBe(false);
    run.end('ok');
    expect(await run.done).toMatchObject({ value: 'ok' });
    expect(await limiter.peek('rate', 'a')).toMatchObject({ remaining: 2 });
  });

  it('run with both kinds of limits charges the window and releases the hold', async () => {
    const { limiter, held } = setUp(open());
    const limits = [
      { policy: 'rate', key: 'a' },
      { policy: 'slots', key: 'a', cost: 2 },
    ] as const;
    expect(await limiter.run(limits, () => 1)).toMatchObject({ value: 1 });
    expect(await limiter.run(limits, {}, () => 2)).toMatchObject({ value: 2 });
    await settle();
    expect(await held()).toBe(0);
    expect(await limiter.peek('rate', 'a')).toMatchObject({ remaining: 3 });
  });

  it('decisions of run are reported to listeners', async () => {
    const { limiter } = setUp(open());
    const seen: boolean[] = [];
    limiter.onDecision(({ allowed }) => seen.push(allowed));
    await limiter.run('slots', 'a', () => 1);
    expect(seen).toEqual([true]);
  });

  it('run rejects a last argument that is not a function', async () => {
    const { limiter } = setUp(open());
    const any = limiter as unknown as { run(...args: unknown[]): Promise<unknown> };
    const error = await rejectionOf(any.run('slots', 'a', {}));
    expect(error).toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('a closed limiter still releases the holds of its runs', async () => {
    const store = open() ?? memoryStore();
    const { clock, limiter } = setUp(store);
    const run = start((work) => limiter.run('slots', 'a', work));
    await settle();
    await limiter.close();
    run.end('');
    await run.done;
    await settle();
    const other = createLimiter({ policies, clock, store });
    expect(await other.inspect('slots', 'a')).toBeUndefined();
  });
});

describe('run on a store that fails', () => {
  it('run sends a failed renewal again and continues', async () => {
    const { store, state } = failing();
    const { clock, limiter } = setUp(store);
    const run = start((work) => limiter.run('slots', 'a', work));
    await settle();
    state.isDown = true;
    await pass(clock, LEASE_MS / 2);
    expect(state.sent.length).toBeGreaterThan(1);
    state.isDown = false;
    await pass(clock, 3 * LEASE_MS);
    expect(run.context!.signal.aborted).toBe(false);
    run.end('');
    await run.done;
  });

  it('the signal of run aborts when the lease ends if no renewal succeeded', async () => {
    const { store, state } = failing();
    const { clock, limiter } = setUp(store);
    const run = start((work) => limiter.run('slots', 'a', work));
    await settle();
    state.isDown = true;
    await pass(clock, LEASE_MS - 100);
    expect(run.context!.signal.aborted).toBe(false);
    await pass(clock, 100);
    expect(codeOf(run.context!.signal)).toBe('ERR_LEASE_LOST');
    run.end('x');
    expect(await run.done).toMatchObject({ value: 'x' });
  });

  it('run sends one release, and resolves although the release fails', async () => {
    const { store, state } = failing();
    const { limiter } = setUp(store);
    state.isDown = true;
    expect(await limiter.run('slots', 'a', () => 1)).toMatchObject({ value: 1 });
    expect(state.sent).toEqual(['release']);
  });

  it('run rejects with ERR_LEASE_LOST if the admission arrives after the lease end', async () => {
    const store = promisesOnly();
    const clock = new ManualClock(START_MS);
    const decide: Store['decide'] = async (checks, nowMs) => {
      const results = await store.decide(checks, nowMs);
      clock.set(START_MS + LEASE_MS);
      return results;
    };
    const limiter = createLimiter({ policies, clock, store: { ...store, decide } as Store });
    let calls = 0;
    const error = await rejectionOf(limiter.run('slots', 'a', () => calls++));
    expect(error).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(calls).toBe(0);
  });
});

describe('many runs', () => {
  it('1,000 concurrent runs are all renewed and released', async () => {
    const clock = new ManualClock(START_MS);
    const many = { slots: { concurrency: 5000, lease: LEASE_MS } } as const;
    const limiter = createLimiter({ policies: many, clock });
    const runs = Array.from({ length: 1000 }, () =>
      start((work) => limiter.run('slots', 'a', work)),
    );
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    for (let renewals = 0; renewals < 5; renewals++) {
      clock.advance(LEASE_MS / 3);
      for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    }
    expect((await limiter.inspect('slots', 'a'))!.used).toBe(1000);
    expect(runs.filter(({ context }) => context!.signal.aborted)).toEqual([]);
    for (const { end } of runs) end('');
    await Promise.all(runs.map(({ done }) => done));
    expect(await limiter.inspect('slots', 'a')).toBeUndefined();
  });
});
