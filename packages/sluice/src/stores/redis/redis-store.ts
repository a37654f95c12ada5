/**
 * The Redis store: everything is decided by one script, on the server, by the server's clock.
 */
import type { LimitParams } from '../../algorithms/algorithm.ts';
import type { CheckResult, LimitDecision } from '../../decision.ts';
import { checkFields, expected, isInteger } from '../../errors.ts';
import {
  DEFAULT_DEADLINE_MS,
  FAILURE_OPTIONS,
  type FailureOptions,
  type GuardedStore,
  withFailurePolicy,
} from '../../failure/guarded-store.ts';
import type { Policy } from '../../policy.ts';
import {
  type Adjustment,
  type Check,
  type Limit,
  type OnSent,
  type Recipient,
  refundOf,
  type SentCommand,
  type Store,
} from '../../store.ts';
import { contained, emitWarning } from '../../warning.ts';
import { Batcher } from './batch.ts';
import {
  type Connection,
  connectionOf,
  type RedisClient,
  type RedisWarning,
  type Send,
} from './client.ts';
import { DenyCache } from './deny-cache.ts';
import { domainOfSlot, idText, KeyNames, slotOf } from './keys.ts';
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
import { evictionWarning, parseServerInfo } from './server.ts';

export interface DenyCacheOptions {
  /** How long a denial is repeated without asking Redis, at the most. Default 1,000. */
  readonly maxMs?: number;
  /** How many keys are remembered. Default 10,000. */
  readonly maxKeys?: number;
}

export interface RedisStoreOptions extends FailureOptions {
  /** What all keys begin with. Default `'s:'`. */
  readonly prefix?: string;
  /** Repeats denials that still hold without asking Redis. On by default; `false` is off. */
  readonly denyCache?: DenyCacheOptions | false;
  /** For a `send` function: whether it leads to a Cluster. Clients tell by themselves. */
  readonly cluster?: boolean;
  /** Told what is dangerous about the setup. Default: a process warning. */
  readonly onWarning?: (warning: RedisWarning) => void;
}

const OPTIONS = ['prefix', 'denyCache', 'cluster', 'onWarning'];

/** The store without its failure policy, which `redisStore` adds. */
export class RedisStore implements Store {
  readonly #batcher: Batcher;
  readonly #isCluster: boolean;
  readonly #names: KeyNames;
  readonly #denials: DenyCache | undefined;
  /** One server is one failure domain. */
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
    const all = checks.map(
      (check) =>
        new Promise<readonly CheckResult[]>((answered, failed) => {
          this.submit(check, nowMs, { answered, failed });
        }),
    );
    return Promise.all(all).then((results) => results.flat());
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
    // A clock that was given says nothing about how long ago a denial was.
    const denials = nowMs === undefined && keys.length === 1 ? this.#denials : undefined;
    const known = id === undefined ? denials?.find(keys[0], limits[0], peek) : undefined;
    if (known !== undefined) {
      recipient.answered([known]);
      return;
    }
    const groups = this.#isCluster && keys.length > 1 ? groupsOf(keys) : [];
    if (groups.length > 1) {
      const onSent = (command: SentCommand): void => recipient.sent?.(command);
      this.#decideApart(check, keys, groups, nowMs, onSent).then(
        (results) => recipient.answered(results),
        (error) => recipient.failed(error),
      );
    } else this.#batcher.submit(this.#operation(check, keys, denials), nowMs, recipient);
  }

  /** One check whose keys lie in one slot. */
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
   * Limits on several nodes cannot be decided in one step. So each node's are reserved, and given
   * back if another node says no: for a moment a neighbour may be denied, but never is too much
   * admitted.
   */
  async #decideApart(
    check: Check,
    keys: readonly string[],
    groups: readonly (readonly number[])[],
    nowMs: number | undefined,
    onSent: OnSent,
  ): Promise<readonly CheckResult[]> {
    const { limits, peek, id } = check;
    const answers: LimitDecision[] = [];
    const reserved: (readonly number[])[] = [];
    const reserve = async (places: readonly number[]): Promise<boolean> => {
      const part = { limits: places.map((place) => limits[place]), peek, id };
      const names = places.map((place) => keys[place]);
      const operation = this.#operation(part, names, undefined, longestWindow(limits));
      const [result] = await this.#batcher.do(operation, nowMs, onSent);
      for (const [at, place] of places.entries()) answers[place] = result.limits[at];
      // What is remembered was charged by an earlier call, and stays its own.
      if (result.allowed && !peek && operation.isNew) reserved.push(places);
      return result.allowed;
    };
    const results = await Promise.allSettled(groups.map(reserve));
    const fits = results.every((each) => each.status === 'fulfilled' && each.value);
    if (!fits) {
      await Promise.all([
        ...reserved.map((places) => this.#forget(places, limits, keys, id, nowMs)),
        this.#giveBack(reserved.flat(), limits, keys, answers, nowMs),
      ]);
    }
    const failure = results.find((each) => each.status === 'rejected');
    if (failure !== undefined) throw failure.reason;
    return [Object.assign(joint(answers, peek), { atomic: false as const })];
  }

  /** Gives reservations back, and asks how things stand then. */
  async #giveBack(
    places: readonly number[],
    limits: readonly Limit[],
    keys: readonly string[],
    answers: LimitDecision[],
    nowMs: number | undefined,
  ): Promise<void> {
    await Promise.all(
      places.map(async (place) => {
        const done = this.#adjustOne(refundOf(limits[place], answers[place].atMs), nowMs);
        const look = this.#batcher.do(
          new CheckOperation('peek', [limits[place]], [keys[place]], undefined),
          nowMs,
        );
        const [, [result]] = await Promise.all([done, look]);
        answers[place] = result.limits[0];
      }),
    );
  }

  /** Makes the id of a reservation new. */
  async #forget(
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
    // What was done in part must not be done again.
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
    return this.#clearing([key], this.#batcher.do(operation, nowMs, onSent));
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
      return this.#clearing(keys, this.#batcher.do(all, nowMs, onSent));
    }
    // On several nodes: marked as used first, so that no failure lets it be used twice.
    const claim = new SpendOperation(text, [], [records], remember);
    if ((await this.#batcher.do(claim, nowMs, onSent)) === undefined) return undefined;
    try {
      return await this.adjust(adjustments, nowMs, onSent);
    } catch (error) {
      if ((error as { notDone?: true }).notDone) await this.#unspend(text, records, nowMs);
      throw error;
    }
  }

  /** Makes a receipt unused. If that fails it stays used, which never admits too much. */
  async #unspend(id: string, records: string, nowMs: number | undefined): Promise<void> {
    const operation = new NumberOperation('unspend', [], [records], '', id);
    await this.#batcher.do(operation, nowMs).catch(() => {});
  }

  async reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    const name = this.#names.of(policy, key);
    const operation = new NumberOperation('reset', [], this.#withRecords([name]));
    await this.#clearing([name], this.#batcher.do(operation, nowMs, onSent));
  }

  /** What changes a key makes denials untrue: those of before, and those that come meanwhile. */
  async #clearing<T>(keys: readonly string[], change: Promise<T>): Promise<T> {
    for (const key of keys) this.#denials?.forget(key);
    const answer = await change;
    for (const key of keys) this.#denials?.forget(key);
    return answer;
  }

  inspect(policy: Policy, params: LimitParams, key: string, nowMs?: number, onSent?: OnSent) {
    const limit = { policy, params, key, cost: 0 };
    const name = this.#names.of(policy, key);
    return this.#batcher.do(new InspectOperation('inspect', [limit], [name]), nowMs, onSent);
  }

  /** The client is the caller's to close. */
  async close(): Promise<void> {}
}

function longestWindow(limits: readonly Limit[]): number {
  return Math.max(...limits.map(({ policy }) => policy.windowMs));
}

/** The places of the keys that lie in one slot, slot by slot. */
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

function denyCacheOf(options: DenyCacheOptions | false | undefined): DenyCache | undefined {
  if (options === false) return undefined;
  if (options !== undefined) checkFields(options, ['maxMs', 'maxKeys']);
  const { maxMs = 1000, maxKeys = 10_000 } = options ?? {};
  for (const [name, value] of Object.entries({ maxMs, maxKeys })) {
    if (isInteger(value, 1)) continue;
    throw expected('ERR_INVALID_OPTION', `\`denyCache.${name}\` to be an integer >= 1`, value);
  }
  return new DenyCache(maxMs, maxKeys);
}

/**
 * Calls `then` once, when the first command has been answered: by then there is a connection.
 * Async, so that whatever a client does instead of returning a promise becomes a rejection.
 */
function afterFirst(send: Send, then: () => void): Send {
  let isFirst = true;
  return async (args, key) => {
    const answer = await send(args, key);
    if (isFirst) {
      isFirst = false;
      then();
    }
    return answer;
  };
}

function checkOption(isRight: boolean, what: string, came: unknown): void {
  if (!isRight) throw expected('ERR_INVALID_OPTION', what, came);
}

/** Warns if the server evicts. A user without the right to ask is not told. */
async function lookAt(info: Connection['info'], onWarning: (warning: RedisWarning) => void) {
  const reply = await (async () => info?.())().catch(() => '');
  const report = parseServerInfo(reply);
  if (report.evicts) onWarning(evictionWarning(report));
}

/**
 * A store in Redis or Valkey, for a limiter that many processes share.
 *
 *     const store = redisStore(new Redis({ enableOfflineQueue: false }), { onFailure: 'deny' });
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): GuardedStore {
  checkFields(options, [...OPTIONS, ...FAILURE_OPTIONS]);
  const { prefix = 's:', denyCache, cluster, onWarning = emitWarning, ...failure } = options;
  const isPlain = typeof prefix === 'string' && !/[{}]/.test(prefix);
  checkOption(isPlain, '`prefix` to be text without braces', prefix);
  checkOption(typeof onWarning === 'function', '`onWarning` to be a function', onWarning);
  checkOption([true, false, undefined].includes(cluster), '`cluster` to be a boolean', cluster);
  const { send, info, warnings, onReady, ...connection } = connectionOf(client);
  const isCluster = cluster ?? connection.isCluster;
  const warn = contained(onWarning);
  for (const warning of warnings) warn(warning);
  const batcher = new Batcher(
    afterFirst(send, () => void lookAt(info, warn)),
    isCluster,
    failure.deadlineMs ?? DEFAULT_DEADLINE_MS,
  );
  const [names, denials] = [new KeyNames(prefix), denyCacheOf(denyCache)];
  return withFailurePolicy(new RedisStore(batcher, isCluster, names, denials, onReady), failure);
}
