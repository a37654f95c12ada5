/** The operations of the Redis store: their arguments for the script, and their results. */
import {
  type CheckResult,
  DecisionRecord,
  jointDecision,
  type LimitDecision,
  PeekRecord,
} from '../../decision.ts';
import {
  type Adjustment,
  type KeyState,
  type Limit,
  MAX_INSPECTED,
  receiptLifetimeMs,
} from '../../store.ts';
import type { DenyCache } from './deny-cache.ts';
import { fastFormatOf } from './fast-scripts.ts';
import { type Kind, RedisOperation } from './operation.ts';
import type { Reply } from './reply.ts';

export class CheckOperation extends RedisOperation<readonly CheckResult[]> {
  /** False if the reply is the recorded decision of an earlier call with the same id. */
  isNew = true;

  constructor(
    kind: 'check' | 'peek' | 'once',
    limits: readonly Limit[],
    keys: readonly string[],
    private readonly denials: DenyCache | undefined,
    rememberMs = 0,
    id?: string,
  ) {
    super(kind, limits, keys, kind === 'once' ? ` ${rememberMs}` : '', id);
    if (kind !== 'once' && limits.length === 1) this.fast = fastFormatOf(limits[0].policy);
  }

  override read(reply: Reply): readonly CheckResult[] {
    const { limits, kind } = this;
    if (kind === 'once') this.isNew = reply.number() === 1;
    const result =
      limits.length === 1
        ? readLimit(reply, limits[0], kind)
        : jointResult(
            limits.map((limit) => readLimit(reply, limit, kind)),
            kind === 'peek',
          );
    if (!result.allowed) this.denials?.add(this.keys[0], limits[0].params, result, reply.sentMs);
    return [result];
  }
}

/** An operation whose reply is one number. */
export class NumberOperation extends RedisOperation<number> {
  override read(reply: Reply): number {
    return reply.number();
  }
}

/** Applies the adjustments of a receipt. The result is undefined if the receipt was used before. */
export class SpendOperation extends RedisOperation<readonly number[] | undefined> {
  constructor(
    id: string,
    adjustments: readonly Adjustment[],
    keys: readonly string[],
    recordingArgs: string,
  ) {
    super(
      'spend',
      adjustments.map(limitOf),
      keys,
      recordingArgs,
      id,
      adjustments.map(adjustmentArgs),
    );
  }

  override read(reply: Reply): readonly number[] | undefined {
    if (reply.number() === 0) return undefined;
    return this.limits.map(() => reply.number());
  }
}

/** Returns the limit of an adjustment, with cost 0. */
export const limitOf = ({ policy, params, charge }: Adjustment): Limit => ({
  policy,
  params,
  key: charge.key,
  cost: 0,
});

/** Returns the arguments of an adjustment for the script. */
export const adjustmentArgs = ({ charge, delta }: Adjustment): string =>
  ` ${charge.atMs} ${delta} ${charge.cost}`;

/**
 * Returns two arguments that set how long a receipt is recorded as used: the time at which the
 * record expires, and half of its longest lifetime.
 */
export function recordingArgsOf(adjustments: readonly Adjustment[]): string {
  const longestMs = Math.max(...adjustments.map(receiptLifetimeMs));
  const newestMs = Math.max(...adjustments.map(({ charge }) => charge.atMs));
  return ` ${Math.min(newestMs + longestMs, Number.MAX_SAFE_INTEGER)} ${longestMs}`;
}

export class InspectOperation extends RedisOperation<KeyState | undefined> {
  override read(reply: Reply): KeyState | undefined {
    return readState(reply, this.limits[0]);
  }
}

/** Reads the result of one limit of a check, see the replies in decide.lua. */
function readLimit(reply: Reply, limit: Limit, operation: Kind): CheckResult {
  const { policy, params, key, cost } = limit;
  let atMs = operation === 'once' ? reply.number() : reply.nowMs;
  let waitMs = reply.number();
  if (waitMs < 0) {
    atMs -= waitMs;
    waitMs = reply.number();
  }
  const free = reply.number();
  const resetAfterMs = reply.number();
  const kind = operation === 'peek' ? PeekRecord : DecisionRecord;
  return new kind(policy.name, key, cost, params.capacity, waitMs, atMs, { free, resetAfterMs });
}

export function jointResult(limits: readonly LimitDecision[], peek: boolean): CheckResult {
  return jointDecision(limits, !peek && limits.every(({ allowed }) => allowed));
}

function readState(reply: Reply, { policy, params }: Limit): KeyState | undefined {
  if (reply.number() === 0) return undefined;
  reply.number();
  const free = reply.number();
  const resetAfterMs = reply.number();
  const cells = [reply.number(), reply.number(), reply.number()];
  const entryCount = reply.number();
  const entries: { atMs: number; cost: number }[] = [];
  for (let chunks = reply.number(); chunks > 0; chunks--) readEntries(reply, entries);
  const { name, algorithm } = policy;
  const used = params.capacity - free;
  return {
    policy: name,
    algorithm,
    used,
    remaining: Math.max(free, 0),
    resetAfterMs,
    cells,
    entries: entries.slice(-MAX_INSPECTED),
    entryCount,
  };
}

/** Reads one chunk into `entries`: times are relative to its base, and totals are cumulative. */
function readEntries(reply: Reply, entries: { atMs: number; cost: number }[]): void {
  const baseMs = reply.number();
  let before = reply.number();
  const numbers = reply.numbers();
  for (let index = 0; index < numbers.length; index += 2) {
    const total = numbers[index + 1];
    entries.push({ atMs: baseMs + numbers[index], cost: total - before });
    before = total;
  }
}
