/** The Redis store: one script decides everything on the server, by the server's clock. */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import type { CheckResult, LimitDecision } from '../../decision.ts';
import type { Policy } from '../../policy.ts';
import {
  type Adjustment,
  type Check,
  decideBySubmit,
  type Limit,
  type OnSent,
  type Recipient,
  refundOf,
  type SentCommand,
  type Store,
} from '../../store.ts';
import type { Batcher } from './batch.ts';
import type { DenyCache } from './deny-cache.ts';
import { domainOfSlot, idText, type KeyNames, slotOf } from './keys.ts';
import {
  CheckOperation,
  changeOf,
  InspectOperation,
  joint,
  limitOf,
  NumberOperation,
  rememberText,
  SpendOperation,
} from './operations.ts';
import type { OnReady } from './ready-signal.ts';
import { StoreReplyError } from './reply-errors.ts';

/** The store without its failure policy, which `redisStore` adds. */
export class RedisStore implements Store {
  readonly #batcher: Batcher;
  readonly #isCluster: boolean;
  readonly #names: KeyNames;
  readonly #denials: DenyCache | undefined;
  /** Undefined without a Cluster: one server is one failure domain. */
  readonly domainOf?: NonNullable<Store['domainOf']>;
  readonly onReady?: OnReady;

  constructor(
    batcher: Batcher,
    isCluster: boolean,
    names: KeyNames,
    denials?: DenyCache,
    onReady?: OnReady,
  ) {
    this.#batcher = batcher;
    this.#isCluster = isCluster;
    this.#names = names;
    this.#denials = denials;
    if (isCluster) this.domainOf = (policy, key) => domainOfSlot(slotOf(names.of(policy, key)));
    if (onReady !== undefined) this.onReady = onReady;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    return decideBySubmit(this, checks, nowMs);
  }

  submit(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void {
    const { limits, peek, id } = check;
    const keys = [this.#names.of(limits[0].policy, limits[0].key)];
    for (let place = 1; place < limits.length; place++) {
      keys.push(this.#names.of(limits[place].policy, limits[place].key));
    }
    // With a given time, the age of a denial is unknown.
    const denials = nowMs === undefined && keys.length === 1 ? this.#denials : undefined;
    const known = id === undefined ? denials?.find(keys[0], limits[0], peek) : undefined;
    if (known !== undefined) {
      recipient.succeeded([known]);
      return;
    }
    const groups = this.#isCluster && keys.length > 1 ? groupsOf(keys) : [];
    if (groups.length > 1) {
      const onSent = (command: SentCommand): void => recipient.sent?.(command);
      this.#decideAcrossSlots(check, keys, groups, nowMs, onSent).then(
        (results) => recipient.succeeded(results),
        (error) => recipient.failed(error),
      );
    } else this.#batcher.submit(this.#operation(check, keys, denials), nowMs, recipient);
  }

  /** Returns the operation of a check whose keys are in one slot. */
  #operation(
    { limits, peek, id }: Check,
    keys: readonly string[],
    denials: DenyCache | undefined,
    rememberMs?: number,
  ): CheckOperation {
    if (id === undefined) {
      return new CheckOperation(peek ? 'peek' : 'check', limits, keys, denials);
    }
    return new CheckOperation(
      'once',
      limits,
      this.#withRecords(keys),
      denials,
      rememberMs ?? longestWindow(limits),
      idText(id),
    );
  }

  #withRecords(keys: readonly string[]): readonly string[] {
    return [...keys, ...keys.map((key) => this.#names.ofRecords(key))];
  }

  /**
   * Decides limits in several slots, which is not atomic: reserves those of each slot, and refunds
   * them if another slot denies. Meanwhile another call may be denied, but never is too much
   * admitted.
   */
  async #decideAcrossSlots(
    check: Check,
    keys: readonly string[],
    groups: readonly (readonly number[])[],
    nowMs: number | undefined,
    onSent: OnSent,
  ): Promise<readonly CheckResult[]> {
    const { limits, peek, id } = check;
    const decisions: LimitDecision[] = [];
    const reserved: (readonly number[])[] = [];
    const reserve = async (places: readonly number[]): Promise<boolean> => {
      const part = { limits: places.map((place) => limits[place]), peek, id };
      const names = places.map((place) => keys[place]);
      const operation = this.#operation(part, names, undefined, longestWindow(limits));
      const [result] = await this.#batcher.do(operation, nowMs, onSent);
      for (const [at, place] of places.entries()) decisions[place] = result.limits[at];
      // A repeated decision was charged by an earlier call, which keeps the charge.
      if (result.allowed && !peek && operation.isNew) reserved.push(places);
      return result.allowed;
    };
    const results = await Promise.allSettled(groups.map(reserve));
    const fits = results.every((each) => each.status === 'fulfilled' && each.value);
    if (!fits) {
      await Promise.all([
        ...reserved.map((places) => this.#deleteRecords(places, limits, keys, id, nowMs)),
        this.#refundReserved(reserved.flat(), limits, keys, decisions, nowMs),
      ]);
    }
    const failure = results.find((each) => each.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    return [Object.assign(joint(decisions, peek), { atomic: false as const })];
  }

  /** Refunds reservations, and reads the state after it. */
  async #refundReserved(
    places: readonly number[],
    limits: readonly Limit[],
    keys: readonly string[],
    decisions: LimitDecision[],
    nowMs: number | undefined,
  ): Promise<void> {
    await Promise.all(
      places.map(async (place) => {
        const done = this.#adjustOne(refundOf(limits[place], decisions[place].atMs), nowMs);
        const look = this.#batcher.do(
          new CheckOperation('peek', [limits[place]], [keys[place]], undefined),
          nowMs,
        );
        const [, [result]] = await Promise.all([done, look]);
        decisions[place] = result.limits[0];
      }),
    );
  }

  /** Deletes the records of a reservation's idempotency id. */
  async #deleteRecords(
    places: readonly number[],
    limits: readonly Limit[],
    keys: readonly string[],
    id: string | undefined,
    nowMs: number | undefined,
  ): Promise<void> {
    if (id === undefined) return;
    const part = places.map((place) => limits[place]);
    const names = this.#withRecords(places.map((place) => keys[place]));
    await this.#batcher.do(new NumberOperation('forget', part, names, ' 0', idText(id)), nowMs);
  }

  async adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]> {
    const results = await Promise.allSettled(
      adjustments.map((adjustment) => this.#adjustOne(adjustment, nowMs, onSent)),
    );
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures.length === 0) {
      return results.map((result) => (result as PromiseFulfilledResult<number>).value);
    }
    // Adjustments that were applied in part must not be retried.
    const { reason } = failures[0];
    if (failures.length < results.length || !failures.every(({ reason: { notDone } }) => notDone)) {
      throw new StoreReplyError(reason?.message ?? String(reason));
    }
    throw reason;
  }

  async #adjustOne(
    adjustment: Adjustment,
    nowMs: number | undefined,
    onSent?: OnSent,
  ): Promise<number> {
    const key = this.#names.of(adjustment.policy, adjustment.charge.key);
    const operation = new NumberOperation('adjust', [limitOf(adjustment)], [key], '', undefined, [
      changeOf(adjustment),
    ]);
    return this.#clearingDenials([key], this.#batcher.do(operation, nowMs, onSent));
  }

  async adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[] | undefined> {
    if (adjustments.length === 0) return [];
    const keys = adjustments.map(({ policy, charge }) => this.#names.of(policy, charge.key));
    const [text, remember] = [idText(id), rememberText(adjustments)];
    const records = this.#names.ofRecords(keys[0]);
    if (!this.#isCluster || groupsOf(keys).length === 1) {
      const all = new SpendOperation(text, adjustments, [...keys, records], remember);
      return this.#clearingDenials(keys, this.#batcher.do(all, nowMs, onSent));
    }
    // In several slots: mark the receipt as used first, so that no failure lets it be used twice.
    const claim = new SpendOperation(text, [], [records], remember);
    if ((await this.#batcher.do(claim, nowMs, onSent)) === undefined) return undefined;
    try {
      return await this.adjust(adjustments, nowMs, onSent);
    } catch (error) {
      if ((error as { notDone?: true }).notDone) await this.#unspend(text, records, nowMs);
      throw error;
    }
  }

  /** Marks a receipt as unused. If that fails it stays used, which never admits too much. */
  async #unspend(id: string, records: string, nowMs: number | undefined): Promise<void> {
    const operation = new NumberOperation('unspend', [], [records], '', id);
    await this.#batcher.do(operation, nowMs).catch(() => {});
  }

  async reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    const name = this.#names.of(policy, key);
    const operation = new NumberOperation('reset', [], this.#withRecords([name]));
    await this.#clearingDenials([name], this.#batcher.do(operation, nowMs, onSent));
  }

  /** Deletes cached denials of keys before and after a change, which invalidates them. */
  async #clearingDenials<T>(keys: readonly string[], change: Promise<T>): Promise<T> {
    for (const key of keys) this.#denials?.delete(key);
    const result = await change;
    for (const key of keys) this.#denials?.delete(key);
    return result;
  }

  inspect(policy: Policy, params: LimitParams, key: string, nowMs?: number, onSent?: OnSent) {
    const limit = { policy, params, key, cost: 0 };
    const name = this.#names.of(policy, key);
    return this.#batcher.do(new InspectOperation('inspect', [limit], [name]), nowMs, onSent);
  }

  /** Does not close the client, which the caller owns. */
  async close(): Promise<void> {}
}

function longestWindow(limits: readonly Limit[]): number {
  return Math.max(...limits.map(({ policy }) => policy.windowMs));
}

/** Groups the indexes of keys by slot. */
function groupsOf(keys: readonly string[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const [place, key] of keys.entries()) {
    const slot = slotOf(key);
    const group = groups.get(slot);
    if (group === undefined) groups.set(slot, [place]);
    else group.push(place);
  }
  return [...groups.values()];
}
