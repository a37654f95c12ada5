/** The Redis store: scripts execute all operations on the server, by the server's clock. */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import { isConcurrency } from '../../algorithms/index.ts';
import type { CheckResult, LimitDecision } from '../../decision.ts';
import type { Grant, LeaseRequest } from '../../leases/lease.ts';
import { Leases } from '../../leases/leases.ts';
import type { Policy } from '../../policy.ts';
import {
  type Adjustment,
  type Check,
  decideBySubmit,
  type Limit,
  type OnRelease,
  type OnSent,
  type Recipient,
  refundOf,
  type SentCommand,
  type Store,
} from '../../store.ts';
import type { Batcher } from './batch.ts';
import type { DenyCache } from './deny-cache.ts';
import { needsRecords } from './fast-scripts.ts';
import { domainOfSlot, idText, type KeyNames, slotOf } from './keys.ts';
import {
  adjustmentArgs,
  CheckOperation,
  InspectOperation,
  jointResult,
  LendOperation,
  limitOf,
  NumberOperation,
  recordingArgsOf,
  SpendOperation,
} from './operations.ts';
import type { OnReady } from './ready-signal.ts';
import { Releases, type Subscribe } from './releases.ts';
import { StoreReplyError } from './reply-errors.ts';

/** The store without its failure policy, which `redisStore` adds. */
export class RedisStore implements Store {
  readonly features = ['concurrency', 'block'] as const;
  readonly #batcher: Batcher;
  readonly #isCluster: boolean;
  readonly #names: KeyNames;
  readonly #denials: DenyCache | undefined;
  /** Defined only for a Cluster. A single server is one failure domain. */
  readonly domainOf?: NonNullable<Store['domainOf']>;
  readonly onReady?: OnReady;
  /** Undefined without a way to subscribe. */
  readonly onRelease?: OnRelease;
  readonly #releases: Releases | undefined;
  readonly #leases: Leases | undefined;

  constructor(
    batcher: Batcher,
    isCluster: boolean,
    names: KeyNames,
    denials?: DenyCache,
    onReady?: OnReady,
    subscribe?: Subscribe,
    maxLeaseMs?: number,
  ) {
    this.#batcher = batcher;
    this.#isCluster = isCluster;
    this.#names = names;
    this.#denials = denials;
    if (isCluster) this.domainOf = (policy, key) => domainOfSlot(slotOf(names.of(policy, key)));
    if (onReady !== undefined) this.onReady = onReady;
    if (maxLeaseMs !== undefined) {
      this.#leases = new Leases((limit, request) => this.#lend(limit, request), maxLeaseMs);
    }
    if (subscribe === undefined) return;
    const releases = new Releases(names, subscribe);
    this.#releases = releases;
    this.onRelease = (listener) => releases.add(listener);
  }

  decideLocally(check: Check, nowMs?: number): CheckResult | undefined {
    const leases = this.#leasesOf(check, nowMs);
    if (leases === undefined) return undefined;
    return leases.decide(check) ?? this.#deniedLocally(check, leases);
  }

  /** Returns the last denial of a hot key again, for a short time. */
  #deniedLocally({ limits }: Check, leases: Leases): CheckResult | undefined {
    const [limit] = limits;
    if (limits.length > 1 || this.#denials === undefined || !leases.isShort(limit))
      return undefined;
    return this.#denials.find(this.#names.of(limit.policy, limit.key), limit, false, true);
  }

  /** Returns the leases of this process if they can decide this check. */
  #leasesOf(check: Check, nowMs: number | undefined): Leases | undefined {
    const leases = this.#leases;
    if (leases === undefined || nowMs !== undefined || check.peek || check.id !== undefined) {
      return undefined;
    }
    for (const { policy } of check.limits) if (policy.lease === undefined) return undefined;
    return leases;
  }

  #lend(limit: Limit, request: LeaseRequest): Promise<Grant> {
    const keys = this.#withRecords([this.#names.of(limit.policy, limit.key)]);
    // A lease that arrives late has ended already.
    return this.#batcher.doFirst(new LendOperation(limit, keys, request));
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    return this.#batcher.together(() => decideBySubmit(this, checks, nowMs));
  }

  submit(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void {
    const { limits, peek, id } = check;
    const keys = [this.#names.of(limits[0].policy, limits[0].key)];
    for (let index = 1; index < limits.length; index++) {
      keys.push(this.#names.of(limits[index].policy, limits[index].key));
    }
    // Cached denials expire by the system clock, so they are not used if `nowMs` is given.
    const isCached = nowMs === undefined && keys.length === 1 && !isConcurrency(limits[0].policy);
    const denials = isCached ? this.#denials : undefined;
    const cachedDenial = id === undefined ? denials?.find(keys[0], limits[0], peek) : undefined;
    if (cachedDenial !== undefined) {
      recipient.succeeded([cachedDenial]);
      return;
    }
    const send = (to: Recipient<readonly CheckResult[]>): void =>
      this.#send(check, keys, denials, nowMs, to);
    const leases = limits.length === 1 ? this.#leasesOf(check, nowMs) : undefined;
    if (leases === undefined) send(recipient);
    else {
      const decide = () => leases.decideAgain(check) ?? this.#deniedLocally(check, leases);
      leases.queueOf(limits[0]).add({ recipient, decide, send });
    }
  }

  #send(
    check: Check,
    keys: readonly string[],
    denials: DenyCache | undefined,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void {
    const groups = this.#isCluster && keys.length > 1 ? groupBySlot(keys) : [];
    if (groups.length > 1) {
      const onSent = (command: SentCommand): void => recipient.sent?.(command);
      this.#decideAcrossSlots(check, keys, groups, nowMs, onSent).then(
        (results) => recipient.succeeded(results),
        (error) => recipient.failed(error),
      );
    } else this.#batcher.submit(this.#checkOperation(check, keys, denials), nowMs, recipient);
  }

  /** Returns the operation of a check whose keys are in one slot. */
  #checkOperation(
    { limits, peek, id, label }: Check,
    keys: readonly string[],
    denials: DenyCache | undefined,
    rememberMs?: number,
  ): CheckOperation {
    // The label of a hold. Other limits ignore it, so their operations need none.
    const own = label && !peek && limits.some(({ policy }) => isConcurrency(policy)) ? label : '';
    if (id === undefined) {
      const all = limits.some(({ policy }) => needsRecords(policy))
        ? this.#withRecords(keys)
        : keys;
      const kind = peek ? 'peek' : 'check';
      return new CheckOperation(kind, limits, all, denials, undefined, undefined, own);
    }
    return new CheckOperation(
      'once',
      limits,
      this.#withRecords(keys),
      denials,
      rememberMs ?? longestWindow(limits),
      idText(id),
      own,
    );
  }

  #withRecords(keys: readonly string[]): readonly string[] {
    return [...keys, ...keys.map((key) => this.#names.ofRecords(key))];
  }

  /**
   * Decides limits in several slots, which is not atomic. Charges the limits of each slot, and
   * refunds them if another slot denies or fails. Until the refund, other calls may be denied that
   * would fit, but no limit is exceeded.
   */
  async #decideAcrossSlots(
    check: Check,
    keys: readonly string[],
    groups: readonly (readonly number[])[],
    nowMs: number | undefined,
    onSent: OnSent,
  ): Promise<readonly CheckResult[]> {
    const { limits, peek, id, label } = check;
    const decisions: LimitDecision[] = [];
    const reserved: (readonly number[])[] = [];
    const reserve = async (indexes: readonly number[]): Promise<boolean> => {
      const part = { limits: indexes.map((index) => limits[index]), peek, id, label };
      const names = indexes.map((index) => keys[index]);
      const operation = this.#checkOperation(part, names, undefined, longestWindow(limits));
      const [result] = await this.#batcher.do(operation, nowMs, onSent);
      for (const [at, index] of indexes.entries()) decisions[index] = result.limits[at];
      // If the decision was recorded by an earlier call with the same id, its charge is kept.
      if (result.allowed && !peek && operation.isNew) reserved.push(indexes);
      return result.allowed;
    };
    const results = await Promise.allSettled(groups.map(reserve));
    const fits = results.every((each) => each.status === 'fulfilled' && each.value);
    if (!fits) {
      await Promise.all([
        ...reserved.map((indexes) => this.#deleteRecords(indexes, limits, keys, id, nowMs)),
        this.#refundReserved(reserved.flat(), limits, keys, decisions, nowMs),
      ]);
    }
    const failure = results.find((each) => each.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    return [Object.assign(jointResult(decisions, peek), { atomic: false as const })];
  }

  /** Refunds reserved limits, and replaces their decisions by the state after the refund. */
  async #refundReserved(
    indexes: readonly number[],
    limits: readonly Limit[],
    keys: readonly string[],
    decisions: LimitDecision[],
    nowMs: number | undefined,
  ): Promise<void> {
    const refund = async (index: number): Promise<void> => {
      const done = this.#adjustOne(refundOf(limits[index], decisions[index]), nowMs);
      const check = { limits: [limits[index]], peek: true };
      const peek = this.#checkOperation(check, [keys[index]], undefined);
      const [, [result]] = await Promise.all([done, this.#batcher.do(peek, nowMs)]);
      decisions[index] = result.limits[0];
    };
    await Promise.all(this.#batcher.together(() => indexes.map(refund)));
  }

  /** Deletes the records of a reservation's idempotency id. */
  async #deleteRecords(
    indexes: readonly number[],
    limits: readonly Limit[],
    keys: readonly string[],
    id: string | undefined,
    nowMs: number | undefined,
  ): Promise<void> {
    if (id === undefined) return;
    const part = indexes.map((index) => limits[index]);
    const names = this.#withRecords(indexes.map((index) => keys[index]));
    await this.#batcher.do(new NumberOperation('forget', part, names, ' 0', idText(id)), nowMs);
  }

  async adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]> {
    const all = this.#batcher.together(() =>
      adjustments.map((adjustment) => this.#adjustOne(adjustment, nowMs, onSent)),
    );
    const results = await Promise.allSettled(all);
    const failures = results.filter((result) => result.status === 'rejected');
    if (failures.length === 0) {
      return results.map((result) => (result as PromiseFulfilledResult<number>).value);
    }
    // Omits `notDone` from the error: if some adjustments were applied, none must be retried.
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
    const keys = adjustment.policy.lease ? this.#withRecords([key]) : [key];
    const operation = new NumberOperation('adjust', [limitOf(adjustment)], keys, '', undefined, [
      adjustmentArgs(adjustment),
    ]);
    return this.#clearingDenialsOf([key], this.#batcher.do(operation, nowMs, onSent));
  }

  async adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[] | undefined> {
    if (adjustments.length === 0) return [];
    const keys = adjustments.map(({ policy, charge }) => this.#names.of(policy, charge.key));
    const [text, recordingArgs] = [idText(id), recordingArgsOf(adjustments)];
    const records = this.#names.ofRecords(keys[0]);
    if (!this.#isCluster || groupBySlot(keys).length === 1) {
      const isLeased = adjustments.some(({ policy }) => policy.lease);
      const names = isLeased ? this.#withRecords(keys) : [...keys, records];
      const all = new SpendOperation(text, adjustments, names, recordingArgs);
      return this.#clearingDenialsOf(keys, this.#batcher.do(all, nowMs, onSent));
    }
    // With several slots, the receipt is marked as used first. So a failure in between never allows
    // a second use.
    const claim = new SpendOperation(text, [], [records], recordingArgs);
    if ((await this.#batcher.do(claim, nowMs, onSent)) === undefined) return undefined;
    try {
      return await this.adjust(adjustments, nowMs, onSent);
    } catch (error) {
      if ((error as { notDone?: true }).notDone) await this.#unspend(text, records, nowMs);
      throw error;
    }
  }

  /** Marks a receipt as unused. If that fails, the receipt stays used and cannot be refunded. */
  async #unspend(id: string, records: string, nowMs: number | undefined): Promise<void> {
    const operation = new NumberOperation('unspend', [], [records], '', id);
    await this.#batcher.do(operation, nowMs).catch(() => {});
  }

  async reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    const name = this.#names.of(policy, key);
    // Holds and leases have their own reset.
    const limits = isConcurrency(policy) || policy.lease ? [anyLimit(policy, key)] : [];
    const operation = new NumberOperation('reset', limits, this.#withRecords([name]));
    await this.#clearingDenialsOf([name], this.#batcher.do(operation, nowMs, onSent));
  }

  async block(
    policy: Policy,
    key: string,
    forMs: number,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<void> {
    const name = this.#names.of(policy, key);
    const records = [this.#names.ofRecords(name)];
    const limits = [anyLimit(policy, key)];
    const operation = new NumberOperation('block', limits, records, ` ${forMs}`);
    await this.#clearingDenialsOf([name], this.#batcher.do(operation, nowMs, onSent));
  }

  /** Deletes cached denials of keys before and after a change, which may make them invalid. */
  async #clearingDenialsOf<T>(keys: readonly string[], change: Promise<T>): Promise<T> {
    for (const key of keys) this.#denials?.delete(key);
    const result = await change;
    for (const key of keys) this.#denials?.delete(key);
    return result;
  }

  inspect(policy: Policy, params: LimitParams, key: string, nowMs?: number, onSent?: OnSent) {
    const limit = { policy, params, key, cost: 0 };
    const name = this.#names.of(policy, key);
    const keys = needsRecords(policy) ? this.#withRecords([name]) : [name];
    return this.#batcher.do(new InspectOperation('inspect', [limit], keys), nowMs, onSent);
  }

  /** Returns leases and ends the subscription. Does not close the client, which the caller owns. */
  async close(): Promise<void> {
    this.#releases?.close();
    await this.#leases?.close();
  }
}

/** Returns a limit of the policy for an operation whose result does not depend on its size. */
function anyLimit(policy: Policy, key: string): Limit {
  const { windowMs, bucketMs } = policy;
  return { policy, key, cost: 0, params: { limit: 1, capacity: 1, windowMs, bucketMs } };
}

function longestWindow(limits: readonly Limit[]): number {
  return Math.max(...limits.map(({ policy }) => policy.windowMs));
}

/** Groups the indexes of keys by slot. */
function groupBySlot(keys: readonly string[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const [index, key] of keys.entries()) {
    const slot = slotOf(key);
    const group = groups.get(slot);
    if (group === undefined) groups.set(slot, [index]);
    else group.push(index);
  }
  return [...groups.values()];
}
