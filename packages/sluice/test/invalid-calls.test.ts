import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  type Clock,
  createLimiter,
  type ErrorCode,
  type LimiterOptions,
  ManualClock,
  memoryStore,
  type Policies,
  SluiceError,
  type Store,
} from '../src/index.ts';
import { promisesOnly } from './promises-only.ts';

/** A limiter without types: any method, any arguments. */
type AnyLimiter = Record<string, (...args: unknown[]) => unknown>;
type Call = readonly [method: string, ...args: unknown[]];

const START_MS = 1_745_000_000_000;
const CHARGE = { policy: 'p', key: 'old', cost: 3, atMs: START_MS };
const GOOD_CALLS: Call[] = [
  ['check', 'p', 'old'],
  ['check', [{ policy: 'p', key: 'old' }]],
  ['peek', 'p', 'old'],
  ['acquire', 'p', 'old'],
  ['inspect', 'p', 'old'],
  ['refund', { charges: [CHARGE] }],
  ['settle', { charges: [CHARGE] }, 1],
];

const policies = { p: { limit: 10, window: '1s', costs: { search: 5 } }, q: '3/1s' } as const;

/** Returns a limiter whose key `old` has used 3 of 10, and a function that reads its state. */
async function setUp(store: Store, clock: Clock = new ManualClock(START_MS)) {
  const limiter = createLimiter({ policies, store, clock });
  const { receipt } = await limiter.check('p', 'old', { cost: 3 });
  let reported = 0;
  limiter.onDecision(() => reported++);
  const state = async () => ({
    size: limiter.size,
    peeks: [await limiter.peek('p', 'old'), await limiter.peek('q', 'old')],
    inspected: await limiter.inspect('p', 'old'),
    reported,
  });
  return { limiter, receipt: receipt!, state, any: limiter as unknown as AnyLimiter };
}

function expectError(code: ErrorCode, call: string, error: unknown): void {
  expect(error, call).toBeInstanceOf(SluiceError);
  const { message } = error as SluiceError;
  expect((error as SluiceError).code, `${call}: ${message}`).toBe(code);
  if (code !== 'ERR_CLOSED') expect(message).toMatch(/^Expected .+, got .+$/);
  expect(message.length).toBeLessThan(250);
}

/** Returns what a call throws, or else its result. */
function errorOrResult(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}

/** Expects that a method rejects, and that its synchronous form, if it has one, throws. */
async function expectRejection(any: AnyLimiter, code: ErrorCode, [method, ...args]: Call) {
  const result = any[method](...args) as Promise<unknown>;
  expectError(code, method, await result.catch((error) => error));
  if (!(`${method}Sync` in any)) return;
  const error = errorOrResult(() => any[`${method}Sync`](...args));
  if ((error as SluiceError)?.code === 'ERR_NOT_SYNCHRONOUS') return;
  expectError(code, `${method}Sync`, error);
}

/** Returns calls of each method for one limit: alone, and after another limit that admits. */
function callsFor(policy: unknown, key: unknown, options?: object): Call[] {
  const joint = [
    { policy: 'q', key: 'old' },
    { policy, key, ...options },
  ];
  return ['check', 'peek', 'acquire'].flatMap((method): Call[] => [
    [method, policy, key, options],
    [method, joint],
  ]);
}

const notPeek = ([method]: Call): boolean => method !== 'peek';
const joint = (limits: unknown): Call[] => ['check', 'peek', 'acquire'].map((m) => [m, limits]);
const settled = (receipt: unknown): Call[] => [
  ['refund', receipt],
  ['settle', receipt, 1],
];
const charged = (change: object): Call[] => settled({ charges: [{ ...CHARGE, ...change }] });
const limitsUpTo = (count: number) =>
  Array.from({ length: count }, (_, place) => ({ policy: 'q', key: `k${place}` }));

const sameLimit = (...keys: unknown[]) => keys.map((key) => ({ policy: 'p', key, cost: 2 }));

type Misuse = readonly [what: string, code: ErrorCode, calls: readonly Call[]];
const each = (
  what: string,
  code: ErrorCode,
  values: readonly unknown[],
  callsOf: (value: unknown) => readonly Call[],
): Misuse[] => values.map((value) => [`${what} ${shown(value)}`, code, callsOf(value)]);

const shown = (value: unknown): string =>
  inspect(value, { maxArrayLength: 3, maxStringLength: 10, breakLength: Infinity });

const NOT_COSTS = [Number.NaN, -1, 0.5, Number.POSITIVE_INFINITY, '5', null, 5n, 2 ** 53, [1]];
const NOT_KEYS = [42, null, undefined, {}, '', 'k'.repeat(1025), 'k'.repeat(1e6), true, () => 'k'];
/** Returns a list with a hole at its end, which most iterations skip. */
const holed = (...values: unknown[]): unknown[] => {
  values.length++;
  return values;
};
const NOT_PARTS = [
  ...[[], [''], ['a', Number.NaN], ['a', {}], [['a']], [undefined], [null], [1n]],
  ...[holed('a'), Array(2)],
];
const LONG_PARTS = [['k'.repeat(1025)], Array(600).fill('k'), Array(1e6).fill('k')];
const NOT_TIMES = [Number.NaN, 0.5, -1, Number.POSITIVE_INFINITY, 2 ** 53, '5', null, undefined];
const NOT_RECEIPTS = [null, undefined, 42, 'r', {}, [], { charges: 'p' }, { charges: {} }];
const NOT_LIMITS = [undefined, null, 42, {}, [], [null], ['p'], [undefined], Array(2)];
const NOT_SIGNALS = [5, 0, null, true, 'abort', {}, new AbortController()];
const NOT_CHARGES = [null, undefined, 42, 'p'];

const misuses: Misuse[] = [
  ...each('the cost', 'ERR_INVALID_COST', NOT_COSTS, (cost) => callsFor('p', 'old', { cost })),
  ['the cost 0', 'ERR_INVALID_COST', callsFor('p', 'old', { cost: 0 }).filter(notPeek)],
  ['a cost above the capacity', 'ERR_COST_ABOVE_LIMIT', callsFor('p', 'new', { cost: 11 })],
  [
    'the largest cost there is',
    'ERR_COST_ABOVE_LIMIT',
    callsFor('p', 'new', { cost: 2 ** 53 - 1 }),
  ],
  ...each('the policy', 'ERR_UNKNOWN_POLICY', ['r', '', '__proto__', 'toString'], (name) => [
    ...callsFor(name, 'old'),
    ['reset', name, 'old'],
    ['inspect', name, 'old'],
    ...charged({ policy: name }),
  ]),
  ...each('a joint limit of the policy', 'ERR_UNKNOWN_POLICY', [undefined, null, 42], (policy) =>
    joint([{ policy, key: 'old' }]),
  ),
  ...each('the operation', 'ERR_UNKNOWN_OPERATION', ['find', '', 'toString', null], (operation) =>
    callsFor('p', 'old', { operation }),
  ),
  [
    'an operation of a policy without costs',
    'ERR_UNKNOWN_OPERATION',
    callsFor('q', 'old', { operation: 'search' }),
  ],
  [
    'a cost and an operation',
    'ERR_INVALID_COST',
    callsFor('p', 'old', { operation: 'search', cost: 5 }),
  ],
  ['a misspelt cost', 'ERR_INVALID_OPTION', callsFor('p', 'old', { cots: 5 })],
  ...each('the options', 'ERR_INVALID_OPTION', [null, 5, 'cost'], (options) =>
    ['check', 'peek', 'acquire'].map((method) => [method, 'p', 'old', options]),
  ),
  ...each('the key', 'ERR_INVALID_KEY', [...NOT_KEYS, ...NOT_PARTS, ...LONG_PARTS], (key) => [
    ...callsFor('p', key),
    ['reset', 'p', key],
    ['inspect', 'p', key],
    ...charged({ key }),
  ]),
  ...each('the limits', 'ERR_INVALID_CHECK', NOT_LIMITS, joint),
  ['limits with a hole', 'ERR_INVALID_CHECK', joint(holed({ policy: 'p', key: 'old' }))],
  ...each('the policy', 'ERR_INVALID_CHECK', [undefined, null, 42, {}], (name) =>
    ['check', 'peek', 'acquire'].map((method) => [method, name, 'old']),
  ),
  ['65 limits', 'ERR_INVALID_CHECK', joint(limitsUpTo(65))],
  ['one limit twice', 'ERR_INVALID_CHECK', joint(sameLimit('k', 'k'))],
  ['one key in two forms', 'ERR_INVALID_CHECK', joint(sameLimit('a:b', ['a', 'b']))],
  ['a misspelt field', 'ERR_INVALID_OPTION', joint([{ policy: 'p', key: 'old', kots: 5 }])],
  ...each('the receipt', 'ERR_INVALID_RECEIPT', NOT_RECEIPTS, settled),
  ['a receipt with a hole', 'ERR_INVALID_RECEIPT', settled({ charges: holed(CHARGE) })],
  ['a receipt without charges', 'ERR_INVALID_RECEIPT', settled({ charges: [] })],
  ['a receipt of 65 charges', 'ERR_INVALID_RECEIPT', settled({ charges: Array(65).fill(CHARGE) })],
  ...each('the charge', 'ERR_INVALID_RECEIPT', NOT_CHARGES, (charge) =>
    settled({ charges: [charge] }),
  ),
  ...each('a charge of the cost', 'ERR_INVALID_RECEIPT', [...NOT_COSTS, 0, undefined], (cost) =>
    charged({ cost }),
  ),
  ...each('a charge at the time', 'ERR_INVALID_RECEIPT', NOT_TIMES, (atMs) => charged({ atMs })),
  ...each('the actual cost', 'ERR_INVALID_COST', NOT_COSTS.slice(0, -1), (actual) => [
    ['settle', { charges: [CHARGE] }, actual],
    ['settle', { charges: [CHARGE] }, [actual]],
  ]),
  ...each('the actual costs', 'ERR_INVALID_COST', [[], [1, 1], undefined, {}, [[1]]], (actual) => [
    ['settle', { charges: [CHARGE] }, actual],
  ]),
  ...each('a wait of', 'ERR_INVALID_WAIT', [-1, Number.NaN, '5', null, 5n], (maxWaitMs) => [
    ['acquire', 'p', 'old', { maxWaitMs }],
    ['acquire', [{ policy: 'p', key: 'old' }], { maxWaitMs }],
  ]),
  ...each('the signal', 'ERR_INVALID_OPTION', NOT_SIGNALS, (signal) => [
    ['acquire', 'p', 'old', { signal }],
    ['acquire', [{ policy: 'p', key: 'old' }], { signal }],
  ]),
  ...each('the id', 'ERR_INVALID_KEY', ['', 5, null, 'k'.repeat(1025), ['order', 7]], (id) => [
    ['check', 'p', 'old', { id }],
    ['check', [{ policy: 'p', key: 'old' }], { id }],
  ]),
  ['a misspelt wait', 'ERR_INVALID_OPTION', [['acquire', 'p', 'old', { maxWait: 5 }]]],
  [
    'a cost of all limits',
    'ERR_INVALID_OPTION',
    [['acquire', [{ policy: 'p', key: 'k' }], { cost: 2 }]],
  ],
];

describe('invalid calls', () => {
  describe.each([
    ['the memory store', memoryStore],
    ['an asynchronous store', promisesOnly],
  ])('on %s', (_kind, openStore) => {
    it.each(misuses)('%s is rejected with %s and charges nothing', async (_what, code, calls) => {
      const { any, state } = await setUp(openStore());
      const before = await state();
      for (const call of calls) {
        await expectRejection(any, code, call);
        expect(await state()).toEqual(before);
      }
    });

    it.each(NOT_TIMES)(
      'if the clock returns %s, calls are rejected and no receipt is used',
      async (time) => {
        let nowMs: unknown = START_MS;
        const clock = { now: () => nowMs as number, schedule: () => () => {} };
        const { any, limiter, receipt, state } = await setUp(openStore(), clock);
        const before = await state();
        nowMs = time;
        for (const call of GOOD_CALLS) await expectRejection(any, 'ERR_INVALID_CLOCK', call);
        await expectRejection(any, 'ERR_INVALID_CLOCK', ['refund', receipt]);
        nowMs = START_MS;
        expect(await state()).toEqual(before);
        expect((await limiter.acquire('p', 'old')).allowed).toBe(true);
        expect(await limiter.refund(receipt)).toBe(3);
      },
    );

    it('calls of a closed limiter are rejected', async () => {
      const { any, limiter, receipt } = await setUp(openStore());
      await limiter.close();
      await limiter.close();
      const calls: Call[] = [...GOOD_CALLS, ['reset', 'p', 'old'], ['refund', receipt]];
      for (const call of calls) await expectRejection(any, 'ERR_CLOSED', call);
      await expectRejection(any, 'ERR_CLOSED', ['check', [{ key: 'old' }]]);
    });

    it.each<{ call: Call }>([
      { call: ['check', [{ key: 'old' }]] },
      { call: ['reset', undefined, 'old'] },
      { call: ['inspect', undefined, 'old'] },
    ])('$call.0 without a policy is rejected as the first call of a limiter', async ({ call }) => {
      const limiter: unknown = createLimiter({ policies, store: openStore() });
      await expectRejection(limiter as AnyLimiter, 'ERR_UNKNOWN_POLICY', call);
    });

    it('onDecision rejects a value that is not a function', async () => {
      const { any, limiter } = await setUp(openStore());
      for (const listener of [5, null, undefined, 'listener', {}]) {
        const error = errorOrResult(() => any.onDecision(listener));
        expectError('ERR_INVALID_OPTION', 'onDecision', error);
      }
      expect((await limiter.check('p', 'old')).allowed).toBe(true);
    });

    it('the messages for invalid calls are those in messages/calls.txt', async () => {
      const { any } = await setUp(openStore());
      const lines: string[] = [];
      for (const [what, code, calls] of misuses) {
        const errors = calls.map(([method, ...args]) =>
          (any[method](...args) as Promise<unknown>).catch(({ message }) => message),
        );
        const messages = new Set(await Promise.all(errors));
        lines.push(what, ...[...messages].map((message) => `  ${code}: ${message}`));
      }
      await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('messages/calls.txt');
    });

    it('a rejected settlement does not use its receipt', async () => {
      const { any, limiter, receipt } = await setUp(openStore());
      await expectRejection(any, 'ERR_INVALID_COST', ['settle', receipt, -1]);
      expect(await limiter.refund(receipt)).toBe(3);
    });

    it('a forged receipt of a charge that was never made changes nothing', async () => {
      const { limiter, state } = await setUp(openStore());
      const before = await state();
      for (const change of [{ key: 'new' }, { atMs: START_MS - 1 }, { policy: 'q' }]) {
        const charges = [{ ...CHARGE, ...change }];
        expect(await limiter.refund({ charges })).toBe(0);
        expect(await limiter.settle({ charges }, 5)).toBe(0);
      }
      expect(await state()).toEqual(before);
    });
  });

  it('synchronous methods on an asynchronous store are rejected', async () => {
    const { any, state } = await setUp(promisesOnly());
    const before = await state();
    for (const [method, ...args] of [...GOOD_CALLS, ['reset', 'p', 'old']] as Call[]) {
      if (method === 'acquire') continue;
      const error = errorOrResult(() => any[`${method}Sync`](...args));
      expectError('ERR_NOT_SYNCHRONOUS', method, error);
    }
    expect(await state()).toEqual(before);
  });
});

describe('invalid options', () => {
  const policy = { p: '1/1s' };
  const build = (options: unknown) => createLimiter(options as LimiterOptions<Policies>);

  it.each([
    ...[0, -1, 1.5, Number.NaN, '5', 2 ** 30, null].map((maxKeys) => ({ maxKeys })),
    ...[{ maxkeys: 5 }, null, 5, 'maxKeys'],
  ])('memoryStore(%j) is rejected', (options) => {
    const error = errorOrResult(() => memoryStore(options as object));
    expectError('ERR_INVALID_OPTION', 'memoryStore', error);
  });

  it.each([
    ...[undefined, null, 5, 'p', {}, { policies: {} }, { policies: null }, { policies: ['1/1s'] }],
    ...[{ policies: '1/1s' }, { policies: policy, policy }, { policies: policy, stroe: 5 }],
    ...[null, {}, 5, 'memory', memoryStore].map((store) => ({ policies: policy, store })),
    ...[null, {}, 5, Date.now, { now: 5 }].map((clock) => ({ policies: policy, clock })),
  ])('createLimiter(%o) is rejected', (options) => {
    expectError(
      'ERR_INVALID_OPTION',
      'createLimiter',
      errorOrResult(() => build(options)),
    );
  });
});
