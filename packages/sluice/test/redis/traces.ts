/** Random traces: operations on one key, with a clock that sometimes steps. */
import type { Limiter, Policies } from '../../src/api.ts';
import { ManualClock } from '../../src/clock.ts';
import type { Receipt } from '../../src/decision.ts';
import { createLimiter } from '../../src/limiter.ts';
import type { PolicyOptions } from '../../src/policy.ts';
import type { Store } from '../../src/store.ts';

const START_MS = 1_745_000_100_000;
const ALGORITHMS = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
] as const;

/** Pseudo-random numbers from a seed (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** Returns an integer from 0 to `below` - 1. */
  roll(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    const part = ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    return Math.floor(part * below);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.roll(choices.length)];
  }
}

export type Step =
  | { readonly op: 'check' | 'peek'; readonly atMs: number; readonly costs: readonly number[] }
  | { readonly op: 'refund'; readonly atMs: number; readonly of: number }
  | { readonly op: 'settle'; readonly atMs: number; readonly of: number; readonly actual: number }
  | { readonly op: 'reset' | 'inspect'; readonly atMs: number; readonly place: number };

export interface Trace {
  readonly policies: readonly PolicyOptions[];
  readonly steps: readonly Step[];
}

function policyFrom(dice: Dice): PolicyOptions {
  const algorithm = dice.pick(ALGORITHMS);
  const window = dice.pick([1, 7, 100, 1000, 60_000, 86_400_000, 60 * 86_400_000, 31_536_000_000]);
  const most = Math.floor(Number.MAX_SAFE_INTEGER / window);
  const limit = Math.min(dice.pick([1, 3, 10, 50, 200, 2 ** 31, 2 ** 45]) + dice.roll(3), most);
  const base = { limit, window, algorithm };
  if (algorithm === 'sliding-buckets' && dice.roll(2) === 0) {
    return { ...base, buckets: dice.pick([1, 2, 6, 60, 1000]) };
  }
  if (algorithm === 'token-bucket' && dice.roll(2) === 0) {
    return { ...base, burst: Math.min(Math.max(1, dice.roll(limit * 2)), most) };
  }
  return base;
}

const capacityOf = ({ limit, burst }: PolicyOptions): number => burst ?? (limit as number);

function costFrom(dice: Dice, most: number, least: number): number {
  const wide = dice.pick([1, 2, 5, most, Math.ceil(most / 3)]);
  return Math.max(least, Math.min(dice.roll(Math.min(wide, 2 ** 31)) + least, most));
}

/** Returns a step of the clock: mostly a little ahead, sometimes back or far. */
function strideFrom(dice: Dice, window: number): number {
  const kind = dice.roll(20);
  if (kind < 8) return dice.roll(Math.max(2, Math.ceil(window / 40)));
  if (kind < 14) return dice.roll(Math.max(2, Math.ceil(window / 3)));
  if (kind < 16) return 0;
  if (kind === 16) return window;
  if (kind === 17) return -dice.roll(Math.max(2, window));
  if (kind === 18) return dice.roll(window * 3);
  return dice.pick([-1, 1]) * dice.roll(Math.min(window * 5, 2 ** 40));
}

export function traceFrom(seed: number, length = 50): Trace {
  const dice = new Dice(seed);
  const policies = Array.from({ length: 1 + dice.roll(3) }, () => policyFrom(dice));
  const window = dice.pick(policies).window as number;
  const steps: Step[] = [];
  let atMs = START_MS + dice.roll(1_000_000);
  for (let number = 0; number < length; number++) {
    atMs = Math.max(0, atMs + strideFrom(dice, window));
    const kind = dice.roll(20);
    const of = dice.roll(number + 1);
    const place = dice.roll(policies.length);
    if (kind < 13 || number === 0) {
      const costs = policies.map((policy) => costFrom(dice, capacityOf(policy), 1));
      steps.push({ op: 'check', atMs, costs });
    } else if (kind < 15) {
      const costs = policies.map((policy) => costFrom(dice, capacityOf(policy), 0));
      steps.push({ op: 'peek', atMs, costs });
    } else if (kind < 17) steps.push({ op: 'refund', atMs, of });
    else if (kind === 17) {
      const actual = dice.pick([0, 1, 2, dice.roll(100), dice.roll(2 ** 31)]);
      steps.push({ op: 'settle', atMs, of, actual });
    } else if (kind === 18) steps.push({ op: 'inspect', atMs, place });
    else if (dice.roll(4) === 0) steps.push({ op: 'reset', atMs, place });
    else steps.push({ op: 'inspect', atMs, place });
  }
  return { policies, steps };
}

/** Runs a trace and returns the result of each step as text. */
export async function resultsOf(trace: Trace, store: Store, key: string): Promise<string[]> {
  const clock = new ManualClock();
  const named = trace.policies.map((policy, place) => [`p${place}`, policy]);
  const policies = Object.fromEntries(named) as Policies;
  const limiter = createLimiter({ policies, store, clock }) as Limiter<Policies>;
  const receipts: (Receipt | undefined)[] = [];
  const results: string[] = [];
  for (const step of trace.steps) {
    clock.set(step.atMs);
    const result = await perform(limiter, step, key, receipts);
    receipts.push((result as { receipt?: Receipt } | undefined)?.receipt);
    results.push(JSON.stringify(result) ?? 'undefined');
  }
  return results;
}

async function perform(
  limiter: Limiter<Policies>,
  step: Step,
  key: string,
  receipts: readonly (Receipt | undefined)[],
): Promise<unknown> {
  if (step.op === 'check' || step.op === 'peek') {
    const limits = step.costs.map((cost, place) => ({ policy: `p${place}`, key, cost }));
    return await limiter[step.op](limits);
  }
  if (step.op === 'reset') return limiter.reset(`p${step.place}`, key);
  if (step.op === 'inspect') {
    const state = await limiter.inspect(`p${step.place}`, key);
    // The third cell of a log is internal to the store.
    return state && { ...state, cells: state.cells.slice(0, state.entries.length > 0 ? 2 : 3) };
  }
  if (!('of' in step)) return undefined;
  const receipt = receipts[step.of];
  if (receipt === undefined) return undefined;
  return 'actual' in step ? limiter.settle(receipt, step.actual) : limiter.refund(receipt);
}

/**
 * Returns a trace with a long log: many small costs in short intervals, refunds of any age, and
 * pauses in which most entries expire. So a log changes from a string to a hash and back. In some
 * traces half of the calls are refunded.
 */
export function longTraceFrom(seed: number): Trace {
  const dice = new Dice(seed);
  const algorithm = dice.pick(['sliding-log', 'sliding-log', 'sliding-buckets'] as const);
  const most = dice.pick([60, 300, 900]);
  const window = dice.pick([1000, 20_000, 20_000, 58 * 86_400_000]);
  const unit = Math.min(dice.pick([1, 1, 300, 2 ** 33]), Math.floor(2 ** 52 / window / most));
  const limit = most * unit;
  const buckets = algorithm === 'sliding-buckets' ? { buckets: 1000 } : {};
  const [pauses, kinds] = [dice.pick([100, 400]), dice.pick([6, 14, 40])];
  const costOf = (): number => unit * (1 + (dice.roll(20) === 0 ? dice.roll(20) : 0));
  // Rarely a debt, after which all calls are denied for a window.
  const debts = [70_000 * unit, 2 ** 33, Number.MAX_SAFE_INTEGER];
  const actualOf = (): number => (dice.roll(25) > 0 ? dice.roll(5) * unit : dice.pick(debts));
  const steps: Step[] = [];
  let atMs = START_MS;
  for (let number = 0; number < 2500; number++) {
    atMs += dice.roll(Math.ceil((2.2 * window) / most));
    if (dice.roll(pauses) === 0) atMs += dice.roll(Math.ceil(1.2 * window));
    const kind = dice.roll(kinds);
    const of = Math.max(0, number - 1 - dice.pick([0, 1, 5, dice.roll(50), dice.roll(most)]));
    if (kind === 0) steps.push({ op: 'refund', atMs, of });
    else if (kind === 1) steps.push({ op: 'settle', atMs, of, actual: actualOf() });
    else if (kind === 2 && dice.roll(4) === 0) steps.push({ op: 'inspect', atMs, place: 0 });
    else if (kind === 3) steps.push({ op: 'peek', atMs, costs: [dice.roll(limit)] });
    else if (kind === 4 && dice.roll(100) === 0) steps.push({ op: 'reset', atMs, place: 0 });
    else if (kind === 5 && dice.roll(4) === 0) steps.push({ op: 'refund', atMs, of });
    else steps.push({ op: 'check', atMs, costs: [costOf()] });
  }
  return { policies: [{ limit, window, algorithm, ...buckets }], steps };
}
