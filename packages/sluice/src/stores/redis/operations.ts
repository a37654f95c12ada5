/** The operations of the Redis store: what each sends to the script, and how its reply is read. */
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
import { type Kind, RedisOperation } from './operation.ts';
import type { Reply } from './reply.ts';

export class CheckOperation extends RedisOperation<readonly CheckResult[]> {
  /** Whether it was decided now, and not remembered from an earlier call under its id. */
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
  }

  override read(reply: Reply): readonly CheckResult[] {
    const { limits, kind } = this;
    if (kind === 'once') this.isNew = reply.number() === 1;
    const result =
      limits.length === 1
        ? readLimit(reply, limits[0], kind)
        : joint(
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

/** Adjustments that a receipt is used for; undefined if it has been used before. */
export class SpendOperation extends RedisOperation<readonly number[] | undefined> {
  constructor(
    id: string,
    adjustments: readonly Adjustment[],
    keys: readonly string[],
    remember: string,
  ) {
    super('spend', adjustments.map(limitOf), keys, remember, id, adjustments.map(changeOf));
  }

  override read(reply: Reply): readonly number[] | undefined {
    if (reply.number() === 0) return undefined;
    return this.limits.map(() => reply.number());
  }
}

/** The limit that a charge belongs to. */
export const limitOf = ({ policy, params, charge }: Adjustment): Limit => ({
  policy,
  params,
  key: charge.key,
  cost: 0,
});

/** What to change, in the words of the script. */
export const changeOf = ({ charge, delta }: Adjustment): string =>
  ` ${charge.atMs} ${delta} ${charge.cost}`;

/** Until when a receipt is remembered as used: until none of its charges counts any more. */
export function rememberText(adjustments: readonly Adjustment[]): string {
  const longestMs = Math.max(...adjustments.map(receiptLifetimeMs));
  const newestMs = Math.max(...adjustments.map(({ charge }) => charge.atMs));
  return ` ${Math.min(newestMs + longestMs, Number.MAX_SAFE_INTEGER)} ${longestMs}`;
}

export class InspectOperation extends RedisOperation<KeyState | undefined> {
  override read(reply: Reply): KeyState | undefined {
    return readState(reply, this.limits[0]);
  }
}

function readLimit(reply: Reply, limit: Limit, asked: Kind): CheckResult {
  const { policy, params, key, cost } = limit;
  let atMs = asked === 'once' ? reply.number() : reply.nowMs;
  let waitMs = reply.number();
  if (waitMs < 0) {
    atMs -= waitMs;
    waitMs = reply.number();
  }
  const free = reply.number();
  const resetAfterMs = reply.number();
  const kind = asked === 'peek' ? PeekRecord : DecisionRecord;
  return new kind(policy.name, key, cost, params.capacity, waitMs, atMs, { free, resetAfterMs });
}

export function joint(answers: readonly LimitDecision[], peek: boolean): CheckResult {
  return jointDecision(answers, !peek && answers.every((answer) => answer.allowed));
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

/** Adds the entries of a chunk: times are counted from its base, and totals run on. */
function readEntries(reply: Reply, entries: { atMs: number; cost: number }[]): void {
  const baseMs = reply.number();
  let before = reply.number();
  const numbers = reply.numbers();
  for (let place = 0; place < numbers.length; place += 2) {
    const total = numbers[place + 1];
    entries.push({ atMs: baseMs + numbers[place], cost: total - before });
    before = total;
  }
}
