/**
 * The keys of a concurrency limit: a log of costs whose window is the lease, and a record of each
 * hold. Holds of the same millisecond share an entry of the log, so only the record shows whether
 * a hold may be released. A record takes about 220 bytes.
 *
 * If there are more than `maxHolds` records, the oldest is deleted. If a key is evicted, its log is
 * replaced by an upper bound. In both cases the cost of a hold may count until its lease ends, even
 * if the hold is released before.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import type { CheckResult } from '../../decision.ts';
import { type Adjustment, type KeyState, MAX_INSPECTED } from '../../store.ts';
import type { LimitTable, PolicyTable } from './policy-table.ts';
import { Records, type TableRecord } from './records.ts';

/**
 * A new fence is at least the current time in ms multiplied by this number. So a store that is
 * restarted continues with larger fences.
 */
const FENCES_PER_MS = 1024;

/** `id` is the fence, `expiresMs` the end of the lease. */
interface HoldRecord extends TableRecord {
  /** The hash of the key. */
  readonly key: number;
  readonly cost: number;
  /** The time of the hold's entry in the log. */
  readonly atMs: number;
  readonly label: string | undefined;
}

export class HoldTable implements LimitTable {
  readonly base: PolicyTable;
  readonly #leaseMs: number;
  readonly #holds: Records<HoldRecord>;

  constructor(leaseMs: number, base: PolicyTable, maxHolds: number) {
    this.base = base;
    this.#leaseMs = leaseMs;
    base.records ??= new Records(maxHolds);
    this.#holds = base.records as Records<HoldRecord>;
  }

  takeSync(
    params: LimitParams,
    key: string,
    cost: number,
    givenMs?: number,
    label?: string,
  ): CheckResult {
    const result = this.base.takeSync(params, key, cost, givenMs);
    if (!result.allowed) return result;
    const { atMs } = result;
    const fence = Math.max(this.#holds.lastId + 1, atMs * FENCES_PER_MS);
    this.#add({ id: fence, key: this.base.hashOf(key), cost, label }, atMs);
    return Object.assign(result, { fence });
  }

  peekSync(params: LimitParams, key: string, cost: number, nowMs: number): CheckResult {
    return this.base.peekSync(params, key, cost, nowMs);
  }

  /** Releases or renews a hold. */
  adjust({ params, charge, renew }: Adjustment, nowMs: number): number {
    const { key, fence = 0 } = charge;
    const hold = this.#holds.get(fence);
    if (hold?.key !== this.base.hashOf(key)) return 0;
    const { cost, atMs } = hold;
    // The time of the key, which is later than `nowMs` if the clock was set back.
    const timeMs = this.base.peekSync(params, key, 0, nowMs).atMs;
    if (atMs > timeMs || hold.expiresMs <= timeMs) return 0;
    this.#holds.delete(fence);
    this.base.adjust({ params, charge: { ...charge, atMs }, delta: -cost }, nowMs);
    if (!renew) return -cost;
    // Charges the cost even past the limit: the limit may have been lowered, or the key may have
    // been evicted.
    this.#add(hold, this.base.charge(params, key, cost, nowMs));
    return cost;
  }

  inspect(params: LimitParams, key: string, nowMs: number): KeyState | undefined {
    const state = this.base.inspect(params, key, nowMs);
    if (state === undefined) return undefined;
    const holds = this.#holdsOf(key).filter(({ expiresMs }) => expiresMs > nowMs);
    return {
      ...state,
      holds: holds
        .slice(-MAX_INSPECTED)
        .map(({ id: fence, cost, atMs, expiresMs: expiresAtMs, label }) => ({
          fence,
          cost,
          atMs,
          expiresAtMs,
          label,
        })),
    };
  }

  reset(key: string, nowMs: number): void {
    this.base.reset(key, nowMs);
    for (const { id } of this.#holdsOf(key)) this.#holds.delete(id);
  }

  #holdsOf(key: string): HoldRecord[] {
    const hash = this.base.hashOf(key);
    return this.#holds.all().filter((hold) => hold.key === hash);
  }

  #add(
    { id, key, cost, label }: Pick<HoldRecord, 'id' | 'key' | 'cost' | 'label'>,
    atMs: number,
  ): void {
    this.#holds.add({ id, key, cost, label, atMs, expiresMs: atMs + this.#leaseMs });
  }
}
