/**
 * Runs in the store process: executes the operations of all workers in the order of arrival and
 * replies to each line. The clock of this process sets the time. A line is one JSON list of
 * operations (see `operations.ts`). The whole line is parsed before its first operation runs. If a
 * line is malformed, the worker's channel is closed. If a key, cost or limit is invalid, only its
 * operation fails. If a worker exits, its channel is closed and the other workers are served as
 * before.
 */
import type { Duplex } from 'node:stream';
import {
  type Adjustment,
  type AlgorithmName,
  type BlockParams,
  type Check,
  type CheckResult,
  type Limit,
  type LimitParams,
  type Policy,
  type SyncStore,
  systemClock,
} from 'sluice';
import { algorithmNames, expected, isConcurrency, keyText } from 'sluice/engine';
import { formatLine, ProtocolError, readLines, ValueReader } from './lines.ts';
import { KIND, MAX_CHANNEL_POLICIES, MAX_LIMITS } from './operations.ts';

const ALGORITHMS: readonly string[] = algorithmNames;

/** Runs an operation and appends its results. Called when the whole line has been parsed. */
type ParsedOperation = (results: unknown[], nowMs: number) => void;

export class StoreServer {
  readonly #store: SyncStore;
  readonly #evictedBefore: number;

  /** `evictedBefore` is the number of keys that earlier store processes evicted. */
  constructor(store: SyncStore, evictedBefore = 0) {
    this.#store = store;
    this.#evictedBefore = evictedBefore;
  }

  /** Serves a worker's channel. For a malformed line, calls `onError` and closes the channel. */
  serve(channel: Duplex, onError: (error: Error) => void): void {
    const policies: Policy[] = [];
    const fail = (error: Error): void => {
      onError(error);
      channel.destroy();
    };
    readLines(channel, (values) => this.#run(new ValueReader(values), policies), fail);
    // The channel fails when the worker exits. The supervisor replaces the worker.
    channel.on('error', () => {});
  }

  #run(values: ValueReader, policies: Policy[]): string {
    const parser = new LineParser(this.#store, values, policies);
    const operations: ParsedOperation[] = [];
    while (!values.isAtEnd) {
      const operation = parser.next();
      if (operation !== undefined) operations.push(operation);
    }
    const nowMs = systemClock.now();
    const results: unknown[] = [nowMs, 0, 0, null];
    for (const operation of operations) {
      try {
        operation(results, nowMs);
      } catch (error) {
        results.push({ error: (error as Error).message });
      }
    }
    results[1] = this.#store.size;
    results[2] = this.#evictedBefore + (this.#store.evicted ?? 0);
    results[3] = this.#store.guaranteedKeys ?? null;
    return formatLine(results);
  }
}

/** Parses the operations of one line. Definitions, `time` and `label` take effect at once. */
class LineParser {
  /** Time set by the worker, for tests. If undefined, the clock of this process is used. */
  #givenMs: number | undefined = undefined;
  /** Label of the next check. */
  #label: string | undefined = undefined;

  constructor(
    private readonly store: SyncStore,
    private readonly values: ValueReader,
    private readonly policies: Policy[],
  ) {}

  /** Parses the next operation. Returns undefined for a definition, `time` and `label`. */
  next(): ParsedOperation | undefined {
    const kind = this.values.integer(0);
    switch (kind) {
      case KIND.define:
      case KIND.defineBlock:
        this.#define(kind === KIND.defineBlock);
        return undefined;
      case KIND.time:
        this.#givenMs = this.values.integer(0);
        return undefined;
      case KIND.label:
        this.#label = this.values.text();
        return undefined;
      case KIND.check:
      case KIND.peek:
      case KIND.checkWithId:
        return this.#check(kind);
      case KIND.adjust:
        return this.#adjust();
      case KIND.settle:
        return this.#settle();
      case KIND.reset:
        return this.#reset();
      case KIND.block:
        return this.#block();
      case KIND.inspect:
        return this.#inspect();
      default:
        throw new ProtocolError(`Expected the number of an operation, got ${kind}`);
    }
  }

  #define(hasBlock: boolean): void {
    const { values, policies } = this;
    const number = values.integer(0, Math.min(policies.length, MAX_CHANNEL_POLICIES - 1));
    const name = values.text();
    const algorithm = values.text();
    if (!ALGORITHMS.includes(algorithm)) {
      throw new ProtocolError(`Expected the name of an algorithm, got ${algorithm.slice(0, 60)}`);
    }
    const windowMs = values.integer(1);
    const bucketMs = values.integer(1);
    const limit = values.integer(0);
    const params = limit === 0 ? undefined : { limit, windowMs, bucketMs, capacity: limit };
    const block = hasBlock ? this.#blockParams() : undefined;
    policies.length = number;
    policies.push({
      name,
      algorithm: algorithm as AlgorithmName,
      windowMs,
      bucketMs,
      params,
      costs: new Map(),
      onFailure: undefined,
      block,
      // Not used: every operation contains the limit and the capacity of its key.
      paramsFor: () => params!,
    });
  }

  #blockParams(): BlockParams {
    const { values } = this;
    const forMs = values.integer(1);
    const factor = values.integer(1);
    return { forMs, factor, maxMs: values.integer(1), forgetMs: values.integer(0) };
  }

  #policy(): Policy {
    return this.policies[this.values.integer(0, this.policies.length - 1)];
  }

  #params({ windowMs, bucketMs }: Policy): LimitParams {
    const limit = this.values.integer(1);
    const capacity = this.values.integer(1);
    return { limit, windowMs, bucketMs, capacity };
  }

  #limit(): Limit {
    const policy = this.#policy();
    const params = this.#params(policy);
    const key = this.values.text();
    return { policy, params, key, cost: this.values.integer(0) };
  }

  #limits(): readonly Limit[] {
    const count = this.values.integer(1, MAX_LIMITS);
    if (count === 1) return [this.#limit()];
    return Array.from({ length: count }, () => this.#limit());
  }

  #client(): string | undefined {
    return this.values.text() || undefined;
  }

  #check(kind: number): ParsedOperation {
    const id = kind === KIND.checkWithId ? this.values.text() : undefined;
    const client = kind === KIND.checkWithId ? this.#client() : undefined;
    const limits = this.#limits();
    const check: Check = { limits, peek: kind === KIND.peek, id, client, label: this.#label };
    this.#label = undefined;
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      for (const { params, key, cost } of limits) checkParams(params, key, cost);
      addResult(results, store.decideSync(check, givenMs ?? nowMs), check, nowMs);
    };
  }

  #adjustment(): Adjustment {
    const { policy, params, key, cost } = this.#limit();
    const atMs = this.values.integer(0);
    const delta = this.values.integer(Number.MIN_SAFE_INTEGER);
    const charge = { policy: policy.name, key, cost, atMs };
    if (!isConcurrency(policy)) return { policy, params, charge, delta };
    const hold = { ...charge, fence: this.values.integer(0) };
    const renew = this.values.integer(0, 1) === 1;
    return { policy, params, charge: hold, delta, ...(renew && { renew }) };
  }

  #adjust(): ParsedOperation {
    const adjustment = this.#adjustment();
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      checkAdjustment(adjustment);
      results.push(store.adjustSync(adjustment, givenMs ?? nowMs));
    };
  }

  #settle(): ParsedOperation {
    const receipt = this.values.text();
    const client = this.#client();
    const count = this.values.integer(0, MAX_LIMITS);
    const adjustments = Array.from({ length: count }, () => this.#adjustment());
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      for (const each of adjustments) checkAdjustment(each);
      const atMs = givenMs ?? nowMs;
      const changes = store.adjustOnceSync(keyText(receipt), adjustments, atMs, client);
      if (changes === undefined) results.push(0);
      else results.push(1, ...changes);
    };
  }

  #reset(): ParsedOperation {
    const policy = this.#policy();
    const key = this.values.text();
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      store.resetSync(policy, keyText(key), givenMs ?? nowMs);
      results.push(0);
    };
  }

  #block(): ParsedOperation {
    const policy = this.#policy();
    const key = this.values.text();
    const forMs = this.values.integer(0);
    if (!policy.block) throw new ProtocolError('Expected a policy with a block');
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      store.blockSync?.(policy, keyText(key), forMs, givenMs ?? nowMs);
      results.push(0);
    };
  }

  #inspect(): ParsedOperation {
    const policy = this.#policy();
    const params = this.#params(policy);
    const key = this.values.text();
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      checkParams(params, key, 0);
      results.push(store.inspectSync(policy, params, key, givenMs ?? nowMs) ?? 0);
    };
  }
}

/**
 * Throws if the key is invalid, the cost exceeds the capacity, or limit x window is not a safe
 * integer.
 */
function checkParams({ limit, capacity, windowMs }: LimitParams, key: string, cost: number): void {
  keyText(key);
  if (cost > capacity)
    throw expected('ERR_COST_ABOVE_LIMIT', `a cost of at most ${capacity}`, cost);
  if (Math.max(limit, capacity) * windowMs <= Number.MAX_SAFE_INTEGER) return;
  const product = `${Math.max(limit, capacity)} x ${windowMs} ms`;
  throw expected('ERR_LIMIT_TOO_LARGE', 'limit x window to be at most 2^53 - 1', product);
}

/**
 * Throws if the key or the limit of an adjustment is invalid. Does not validate the cost, because
 * the limit may have been lowered since the charge.
 */
function checkAdjustment({ params, charge }: Adjustment): void {
  checkParams(params, charge.key, 0);
}

/** Appends the result of a check in the form of `operations.ts`. */
function addResult(
  results: unknown[],
  result: CheckResult,
  { limits, id }: Check,
  nowMs: number,
): void {
  if (id !== undefined) results.push(result.client ?? '');
  // For a single limit, `[result]` avoids the getter `result.limits`, which is slower.
  const all = limits.length === 1 ? [result] : result.limits;
  for (let at = 0; at < all.length; at++) {
    const { limit, retryAfterMs, remaining, resetAfterMs, atMs, fence, blockedUntilMs } = all[at];
    if (id !== undefined) results.push(limit);
    results.push(retryAfterMs, remaining, resetAfterMs, atMs - nowMs);
    const { policy } = limits[at];
    if (isConcurrency(policy)) results.push(fence ?? 0);
    else if (policy.block) results.push(blockedUntilMs ?? 0);
  }
}
