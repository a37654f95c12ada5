/** Runs vector files: recorded steps with the decisions that any store must return. */
import type { Limiter, Policies } from '../api.ts';
import { ManualClock } from '../clock.ts';
import type { CheckResult, Receipt } from '../decision.ts';
import { createLimiter } from '../limiter.ts';
import type { BlockParams, PolicyOptions, WindowPolicyOptions } from '../policy.ts';
import type { Store } from '../store.ts';

type Expected = Pick<CheckResult, 'allowed' | 'remaining' | 'retryAfterMs' | 'resetAfterMs'>;

export interface VectorStep {
  readonly at: number;
  /** Version 2 adds `release` and `renew`. */
  readonly op: 'check' | 'peek' | 'refund' | 'reset' | 'release' | 'renew';
  readonly cost?: number;
  readonly costs?: readonly number[];
  /** For a refund, release or renewal: the number of the step with the receipt. */
  readonly of?: number;
  readonly expect?: Partial<Expected> & {
    readonly limits?: readonly (Expected & { readonly limit: number })[];
    readonly released?: boolean;
    readonly renewed?: boolean;
  };
}

type VectorWindowPolicy = Omit<WindowPolicyOptions, 'window' | 'block'> & {
  readonly windowMs: number;
  /** Version 2. */
  readonly block?: BlockParams;
};

/** Version 2. */
interface VectorConcurrencyPolicy {
  readonly algorithm: 'concurrency';
  readonly limit: number;
  readonly leaseMs: number;
}

export interface VectorCase {
  readonly name: string;
  readonly policies: readonly (VectorWindowPolicy | VectorConcurrencyPolicy)[];
  readonly steps: readonly VectorStep[];
}

export interface VectorFile {
  readonly version: 1 | 2;
  readonly cases: readonly VectorCase[];
}

/** The first step of a case whose decision is not the expected one. */
export interface VectorDifference {
  readonly name: string;
  readonly step: number;
  readonly expected: unknown;
  readonly got: unknown;
}

export interface VectorReport {
  readonly passed: number;
  readonly failed: number;
  readonly differences: readonly VectorDifference[];
}

/** What a step returned: a decision, or whether a hold was released or renewed. */
type Outcome = CheckResult | { readonly released: boolean } | { readonly renewed: boolean };

const DECISION_FIELDS = ['allowed', 'remaining', 'retryAfterMs', 'resetAfterMs'] as const;
const LIMIT_FIELDS = ['allowed', 'limit', 'remaining', 'retryAfterMs', 'resetAfterMs'] as const;

/** Parses a vector file. Throws if it is invalid. The message names the case and the step. */
export function parseVectors(text: string): VectorFile {
  const file = JSON.parse(text) as Partial<VectorFile> | null;
  if (file?.version !== 1 && file?.version !== 2) {
    throw new TypeError(`Expected version 1 or 2, got ${file?.version}`);
  }
  if (!Array.isArray(file.cases) || file.cases.length === 0) {
    throw new TypeError('Expected `cases` to be an array of at least one case');
  }
  for (const [number, { name, policies, steps }] of file.cases.entries()) {
    const where = `case ${number} (${name})`;
    if (!Array.isArray(policies) || policies.length === 0) {
      throw new TypeError(`Expected policies in ${where}`);
    }
    if (!Array.isArray(steps)) throw new TypeError(`Expected steps in ${where}`);
    for (const [place, step] of (steps as VectorStep[]).entries()) {
      if (!Number.isSafeInteger(step?.at) || !OPERATIONS.includes(step.op)) {
        const expected = `a time \`at\` and an \`op\` of ${OPERATIONS.join(' ')}`;
        throw new TypeError(`Expected ${expected} in step ${place} of ${where}`);
      }
      if (!WITHOUT_RESULT.includes(step.op) && step.expect === undefined) {
        throw new TypeError(`Expected \`expect\` in step ${place} of ${where}`);
      }
    }
  }
  return file as VectorFile;
}

const WITHOUT_RESULT: readonly string[] = ['refund', 'reset'];
const OPERATIONS: readonly string[] = ['check', 'peek', 'release', 'renew', ...WITHOUT_RESULT];

/** Returns the options of a policy. */
function optionsOf(policy: VectorCase['policies'][number]): PolicyOptions {
  if ('leaseMs' in policy) return { concurrency: policy.limit, lease: policy.leaseMs };
  const { windowMs, block, ...rest } = policy;
  if (block === undefined) return { ...rest, window: windowMs };
  const { forMs, factor, maxMs, forgetMs } = block;
  const options = { for: forMs, factor, max: maxMs, forget: forgetMs };
  return { ...rest, window: windowMs, block: options };
}

/** Runs every case with a new limiter, a new store and its own key. */
export async function runVectors(
  { cases }: VectorFile,
  openStore: () => Store | Promise<Store>,
): Promise<VectorReport> {
  const differences: VectorDifference[] = [];
  for (const [number, each] of cases.entries()) {
    const store = await openStore();
    const difference = await runCase(each, `case-${number}`, store).catch(
      (error): VectorDifference => ({
        name: each.name,
        step: 0,
        expected: 'policies that can be built',
        got: String(error),
      }),
    );
    await store.close();
    if (difference !== undefined) differences.push(difference);
  }
  return { passed: cases.length - differences.length, failed: differences.length, differences };
}

async function runCase(
  { name, policies, steps }: VectorCase,
  key: string,
  store: Store,
): Promise<VectorDifference | undefined> {
  const clock = new ManualClock();
  const named = policies.map((policy, place) => [`policy-${place}`, optionsOf(policy)]);
  const limiter = createLimiter({ policies: Object.fromEntries(named) as Policies, store, clock });
  const receipts: (Receipt | undefined)[] = [];
  for (const [step, action] of steps.entries()) {
    clock.set(action.at);
    const got = await perform(limiter, key, policies.length, action, receipts).catch(String);
    const { expect } = action;
    if (typeof got === 'string' || !agrees(got, expect)) {
      return { name, step, expected: expect, got: picked(got, expect) };
    }
    receipts.push((got as { receipt?: Receipt } | undefined)?.receipt);
  }
  return undefined;
}

/** Performs a step. Resolves to its outcome; undefined for a refund and a reset. */
async function perform(
  limiter: Limiter<Policies>,
  key: string,
  count: number,
  { op, cost, costs, of }: VectorStep,
  receipts: readonly (Receipt | undefined)[],
): Promise<Outcome | undefined> {
  const names = Array.from({ length: count }, (_, place) => `policy-${place}`);
  if (op === 'check') {
    return limiter.check(
      names.map((policy, place) => ({ policy, key, cost: costs?.[place] ?? cost ?? 1 })),
    );
  }
  if (op === 'peek') return limiter.peek(names.map((policy) => ({ policy, key })));
  if (op === 'reset') await Promise.all(names.map((policy) => limiter.reset(policy, key)));
  const receipt = op === 'reset' ? undefined : receipts[of ?? -1];
  if (receipt === undefined) return undefined;
  if (op === 'release') return { released: await limiter.release(receipt) };
  if (op === 'renew') return { renewed: await limiter.renew(receipt) };
  await limiter.refund(receipt);
  return undefined;
}

function agrees(got: Outcome | undefined, expect: VectorStep['expect']): boolean {
  if (expect === undefined) return true;
  if (got === undefined) return false;
  if ('released' in got) return got.released === expect.released;
  if ('renewed' in got) return got.renewed === expect.renewed;
  if (DECISION_FIELDS.some((field) => got[field] !== expect[field])) return false;
  const limits = expect.limits ?? [];
  if (expect.limits !== undefined && limits.length !== got.limits.length) return false;
  return limits.every((limit, place) =>
    LIMIT_FIELDS.every((field) => limit[field] === got.limits[place]?.[field]),
  );
}

/** Returns the fields of a decision that a vector compares. */
function picked(got: Outcome | string | undefined, expect: VectorStep['expect']): unknown {
  if (got === undefined || typeof got === 'string' || !('allowed' in got)) return got;
  const decision = Object.fromEntries(DECISION_FIELDS.map((field) => [field, got[field]]));
  if (expect?.limits === undefined) return decision;
  const limits = got.limits.map((limit) =>
    Object.fromEntries(LIMIT_FIELDS.map((field) => [field, limit[field]])),
  );
  return { ...decision, limits };
}
