/**
 * Serves the embedded store to the workers: runs their operations in the order of arrival, by the
 * clock of this process. A line is validated as a whole before any of its operations runs. A
 * protocol violation closes the channel.
 */
import type { Duplex } from 'node:stream';
import {
  type Adjustment,
  type AlgorithmName,
  type Check,
  type CheckResult,
  type Limit,
  type LimitParams,
  type Policy,
  type SyncStore,
  systemClock,
} from 'sluice';
import { algorithmNames, expected, keyText } from 'sluice/engine';
import { lineOf, ProtocolError, readLines, Values } from './lines.ts';
import { KIND, MAX_DEFINED, MAX_LIMITS } from './operations.ts';

const ALGORITHMS: readonly string[] = algorithmNames;

/** Runs an operation and appends its results. Called when the whole line is valid. */
type Work = (results: unknown[], nowMs: number) => void;

export class StoreServer {
  readonly #store: SyncStore;
  readonly #evictedBefore: number;

  /** `evictedBefore`: evictions of the store processes before this one. */
  constructor(store: SyncStore, evictedBefore = 0) {
    this.#store = store;
    this.#evictedBefore = evictedBefore;
  }

  /** Serves a channel. On a protocol violation `onError` is called and the channel is closed. */
  serve(channel: Duplex, onError: (error: Error) => void): void {
    const policies: Policy[] = [];
    const fail = (error: Error): void => {
      onError(error);
      channel.destroy();
    };
    readLines(channel, (values) => this.#run(new Values(values), policies), fail);
    // The worker exited; the supervisor handles that.
    channel.on('error', () => {});
  }

  #run(values: Values, policies: Policy[]): string {
    const line = new Line(this.#store, values, policies);
    const works: Work[] = [];
    while (!values.isAtEnd) {
      const work = line.next();
      if (work !== undefined) works.push(work);
    }
    const nowMs = systemClock.now();
    const results: unknown[] = [nowMs, 0, 0, null];
    for (const work of works) {
      try {
        work(results, nowMs);
      } catch (error) {
        results.push({ error: (error as Error).message });
      }
    }
    results[1] = this.#store.size;
    results[2] = this.#evictedBefore + (this.#store.evicted ?? 0);
    results[3] = this.#store.guaranteedKeys ?? null;
    return lineOf(results);
  }
}

/** Parses one line. */
class Line {
  /** Time set by the worker, for tests and replays. Default: the clock of this process. */
  #givenMs: number | undefined = undefined;

  constructor(
    private readonly store: SyncStore,
    private readonly values: Values,
    private readonly policies: Policy[],
  ) {}

  next(): Work | undefined {
    const kind = this.values.integer(0);
    switch (kind) {
      case KIND.define:
        this.#define();
        return undefined;
      case KIND.time:
        this.#givenMs = this.values.integer(0);
        return undefined;
      case KIND.check:
      case KIND.peek:
      case KIND.once:
        return this.#check(kind);
      case KIND.adjust:
        return this.#adjust();
      case KIND.settle:
        return this.#settle();
      case KIND.reset:
        return this.#reset();
      case KIND.inspect:
        return this.#inspect();
      default:
        throw new ProtocolError(`Expected a kind of operation, got ${kind}`);
    }
  }

  #define(): void {
    const { values, policies } = this;
    const id = values.integer(0, Math.min(policies.length, MAX_DEFINED - 1));
    const name = values.text();
    const algorithm = values.text();
    if (!ALGORITHMS.includes(algorithm)) {
      throw new ProtocolError(`Expected an algorithm, got ${algorithm.slice(0, 60)}`);
    }
    const windowMs = values.integer(1);
    const bucketMs = values.integer(1);
    const limit = values.integer(0);
    const params = limit === 0 ? undefined : { limit, windowMs, bucketMs, capacity: limit };
    policies.length = id;
    policies.push({
      name,
      algorithm: algorithm as AlgorithmName,
      windowMs,
      bucketMs,
      params,
      costs: new Map(),
      onFailure: undefined,
      // Operations carry the parameters of their key.
      paramsFor: () => params!,
    });
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

  #check(kind: number): Work {
    const id = kind === KIND.once ? this.values.text() : undefined;
    const client = kind === KIND.once ? this.#client() : undefined;
    const limits = this.#limits();
    const check: Check = { limits, peek: kind === KIND.peek, id, client };
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
    return { policy, params, charge: { policy: policy.name, key, cost, atMs }, delta };
  }

  #adjust(): Work {
    const adjustment = this.#adjustment();
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      checkAdjustment(adjustment);
      results.push(store.adjustSync(adjustment, givenMs ?? nowMs));
    };
  }

  #settle(): Work {
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

  #reset(): Work {
    const policy = this.#policy();
    const key = this.values.text();
    const { store } = this;
    const givenMs = this.#givenMs;
    return (results, nowMs) => {
      store.resetSync(policy, keyText(key), givenMs ?? nowMs);
      results.push(0);
    };
  }

  #inspect(): Work {
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

/** Validates what the store's arithmetic depends on. An error fails only this operation. */
function checkParams({ limit, capacity, windowMs }: LimitParams, key: string, cost: number): void {
  keyText(key);
  if (cost > capacity) throw expected('ERR_COST_ABOVE_LIMIT', `at most ${capacity}`, cost);
  if (Math.max(limit, capacity) * windowMs <= Number.MAX_SAFE_INTEGER) return;
  throw expected('ERR_LIMIT_TOO_LARGE', 'limit x window to be at most 2^53 - 1', limit);
}

/** The cost is not checked: the limit may have been lowered since the charge. */
function checkAdjustment({ params, charge }: Adjustment): void {
  checkParams(params, charge.key, 0);
}

function addResult(
  results: unknown[],
  result: CheckResult,
  { limits, id }: Check,
  nowMs: number,
): void {
  if (id !== undefined) results.push(result.client ?? '');
  // Avoids creating `result.limits` for a single limit.
  const all = limits.length === 1 ? [result] : result.limits;
  for (const { limit, retryAfterMs, remaining, resetAfterMs, atMs } of all) {
    if (id !== undefined) results.push(limit);
    results.push(retryAfterMs, remaining, resetAfterMs, atMs - nowMs);
  }
}
