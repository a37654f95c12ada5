/** The operations of the Redis store: their arguments for the script, and their results. */
import { isConcurrency } from '../../algorithms/index.ts';
import {
  type CheckResult,
  DecisionRecord,
  jointDecision,
  type LimitDecision,
  PeekRecord,
} from '../../decision.ts';
import type { Grant, LeaseRequest } from '../../leases/lease.ts';
import {
  type Adjustment,
  type Hold,
  type KeyState,
  type LentUnits,
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
    label?: string,
  ) {
    super(kind, limits, keys, kind === 'once' ? ` ${rememberMs}` : '', id, [], label);
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
    if (!result.allowed) this.denials?.add(this.keys[0], limits[0], result, reply.sentMs);
    return [result];
  }
}

/** An operation whose reply is one number. */
export class NumberOperation extends RedisOperation<number> {
  override read(reply: Reply): number {
    return reply.number();
  }
}

/** Begins or renews a lease. */
export class LendOperation extends RedisOperation<Grant> {
  constructor(limit: Limit, keys: readonly string[], request: LeaseRequest) {
    const { id, number, want, lengthMs, thousandths, spent, acked, endsMs } = request;
    const numbers = [id, number, want, lengthMs, thousandths, spent, acked, endsMs];
    super('lend', [limit], keys, ` ${numbers.join(' ')}`);
  }

  override read(reply: Reply): Grant {
    return { units: reply.number(), atMs: reply.number() };
  }
}

/** Applies the adjustments of a receipt. Its result is undefined if the receipt was used before. */
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

/**
 * Returns the arguments of an adjustment for the script; the last one identifies the lease or the
 * hold. For a hold, a delta of 0 is a renewal. No hold has the fence 0, so an adjustment that is
 * neither a renewal nor a release has no effect.
 */
export const adjustmentArgs = ({ charge, delta, renew }: Adjustment): string => {
  const { atMs, cost, fence = 0, lease } = charge;
  const identity = lease ?? (renew || delta < 0 ? fence : 0);
  return ` ${atMs} ${renew ? 0 : delta} ${cost} ${identity}`;
};

/**
 * Returns two arguments that set how long a receipt is recorded as used: the time at which the
 * record expires, and half of the longest lifetime of the record.
 */
export function recordingArgsOf(adjustments: readonly Adjustment[]): string {
  const longestMs = Math.max(...adjustments.map(receiptLifetimeMs));
  const newestMs = Math.max(...adjustments.map(({ charge }) => charge.atMs));
  return ` ${Math.min(newestMs + longestMs, Number.MAX_SAFE_INTEGER)} ${longestMs}`;
}

export class InspectOperation extends RedisOperation<KeyState | undefined> {
  override read(reply: Reply): KeyState | undefined {
    if (reply.number() === 0) return undefined;
    const atMs = reply.number();
    const [limit] = this.limits;
    const state = readState(reply, limit);
    if (isConcurrency(limit.policy)) return readHolds(reply, limit, state);
    if (limit.policy.lease) return readLeases(reply, state);
    return limit.policy.block ? readBlock(reply, atMs, state) : state;
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
  const rest = { free, resetAfterMs };
  const result = new kind(policy.name, key, cost, params.capacity, waitMs, atMs, rest);
  if (policy.block === undefined && !isConcurrency(policy)) return result;
  const more = reply.number();
  if (more === 0) return result;
  return Object.assign(result, policy.block ? { blockedUntilMs: more } : { fence: more });
}

export function jointResult(limits: readonly LimitDecision[], peek: boolean): CheckResult {
  return jointDecision(limits, !peek && limits.every(({ allowed }) => allowed));
}

function readState(reply: Reply, { policy, params }: Limit): KeyState {
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

/** Reads the holds of a concurrency limit. Those of the same millisecond are one entry. */
function readHolds(reply: Reply, { params }: Limit, state: KeyState): KeyState {
  const count = reply.number();
  const texts = reply.texts();
  const holds: Hold[] = [];
  const entries: { atMs: number; cost: number }[] = [];
  for (let index = texts.length - 4; index >= 0; index -= 4) {
    const [fence, cost, expiresAtMs] = texts.slice(index, index + 3).map(Number);
    const atMs = expiresAtMs - params.windowMs;
    holds.push({ fence, cost, atMs, expiresAtMs, label: texts[index + 3] || undefined });
    const last = entries.at(-1);
    if (last?.atMs === atMs) last.cost += cost;
    else entries.push({ atMs, cost });
  }
  return { ...state, entries, entryCount: count - holds.length + entries.length, holds };
}

function readLeases(reply: Reply, state: KeyState): KeyState {
  const numbers = reply.texts().map(Number);
  const leases: LentUnits[] = [];
  for (let index = 0; index < numbers.length; index += 3) {
    const [id, units, endsAtMs] = numbers.slice(index, index + 3);
    leases.push({ id, units, endsAtMs });
  }
  return leases.length === 0 ? state : { ...state, leases };
}

/** Reads the last block of a key. */
function readBlock(reply: Reply, atMs: number, state: KeyState): KeyState {
  const untilMs = reply.number();
  const blocks = reply.number();
  if (untilMs === 0) return state;
  const leftMs = untilMs - atMs;
  if (leftMs <= 0) return { ...state, blocks };
  const resetAfterMs = Math.max(state.resetAfterMs, leftMs);
  return { ...state, remaining: 0, resetAfterMs, blockedUntilMs: untilMs, blocks };
}

/** Adds the entries of one chunk. Its times are relative to a base, its totals cumulative. */
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
