/**
 * Top keys: the most frequently denied and allowed keys of each policy, over the last five to ten
 * minutes. Reading them requires the admin token, because keys may be personal data.
 */
import { type CheckResult, systemClock } from 'sluice';
import type { DecisionListener } from '../decision-service.ts';
import { badRequest, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';
import { HeavyHitters, type HitsData, KEPT_KEYS, SummaryBudget } from './heavy-hitters.ts';
import { ByPolicy, checkLabel, type LabelParts } from './policy-labels.ts';

/** Duration of a generation. A report covers the current generation and the previous one. */
export const GENERATION_MS = 5 * 60_000;

/**
 * Decisions are counted in batches. A batch has at most 128 decisions and covers at most 100 ms. If
 * each decision were counted alone, the summaries would leave the CPU cache between two requests.
 * Batches avoid these cache misses (0.6 us of CPU per forward-auth request).
 */
const BATCH = 128;
const BATCH_MS = 100;

export type TopBy = 'denied' | 'allowed';

export interface TopKey {
  readonly key: string;
  /** Lower bound of the number of hits. */
  readonly atLeast: number;
  /** Upper bound of the number of hits. */
  readonly atMost: number;
}

export interface TopReport {
  readonly policy: string;
  readonly by: TopBy;
  readonly sinceMs: number;
  /** Number of hits of all keys of the policy. */
  readonly hits: number;
  /** Upper bound of the hits of any key that is not in `keys`. */
  readonly othersAtMost: number;
  /** Most frequent first. */
  readonly keys: readonly TopKey[];
}

/** The summary of one policy in one process, for merging. */
export interface TopData extends HitsData {
  readonly sinceMs: number;
}

export interface TopOptions {
  /** Default `denied`. */
  readonly by?: TopBy;
  /** Default 20, at most 200. */
  readonly count?: number;
}

/**
 * Memory that all summaries of a generation share, in addition to the first 2.5 KB of each. This
 * memory is enough for 45 summaries of the largest size. When it is used up, summaries stop growing
 * and list fewer keys.
 */
export const GENERATION_BYTES = 8 * 1024 * 1024;

/** Creates each summary at its first hit, because most policies of a large file never deny. */
class Summaries implements Record<TopBy, HeavyHitters | undefined> {
  denied: HeavyHitters | undefined = undefined;
  allowed: HeavyHitters | undefined = undefined;

  constructor(private readonly budget: SummaryBudget) {}

  hit(key: string, isAllowed: boolean): void {
    if (isAllowed) {
      this.allowed ??= new HeavyHitters(this.budget);
      this.allowed.add(key);
    } else {
      this.denied ??= new HeavyHitters(this.budget);
      this.denied.add(key);
    }
  }
}

interface Generation {
  readonly startMs: number;
  readonly policies: ByPolicy<Summaries>;
}

export class TopKeys {
  #current: Generation;
  #previous: Generation | undefined = undefined;
  /** Decisions of checks with one limit that are not counted yet. */
  readonly #waiting: CheckResult[] = [];
  /** Time of the first decision in `#waiting`, by the clock of the store. */
  #waitingMs = Number.NaN;

  constructor() {
    this.#current = this.#newGeneration(systemClock.now());
  }

  #newGeneration(startMs: number): Generation {
    const budget = new SummaryBudget(GENERATION_BYTES);
    return { startMs, policies: new ByPolicy(() => new Summaries(budget)) };
  }

  /**
   * Listener for `DecisionService.watch`. If a limit allowed but another limit of its check denied,
   * its key is counted neither as allowed nor as denied.
   */
  readonly watch: DecisionListener = ({ allowed, result, shadow }, limits) => {
    if (shadow.length > 0) this.#addShadow(shadow);
    // If the store failed, the decision does not depend on the counter of the key.
    if (result === undefined || (result.degraded && result.degraded.action !== 'local')) return;
    if (limits.length === 1) return this.#addLater(result);
    const { policies } = this.#currentGeneration();
    for (const limit of result.limits) {
      if (allowed || !limit.allowed) policies.of(limit.policy).hit(limit.key, allowed);
    }
  };

  #addLater(result: CheckResult): void {
    const movedMs = result.atMs - this.#waitingMs;
    const isSoon = movedMs >= 0 && movedMs < BATCH_MS;
    if (!isSoon || this.#waiting.length >= BATCH) {
      this.#currentGeneration();
      this.#waitingMs = result.atMs;
    }
    this.#waiting.push(result);
  }

  #addShadow(shadow: readonly CheckResult[]): void {
    const { policies } = this.#currentGeneration();
    for (const { policy, key, allowed } of shadow) policies.of(policy).hit(key, allowed);
  }

  /** Counts the waiting decisions, then returns the current generation. */
  #currentGeneration(): Generation {
    const nowMs = systemClock.now();
    const { policies } = this.#current;
    for (const { policy, key, allowed } of this.#waiting) policies.of(policy).hit(key, allowed);
    this.#waiting.length = 0;
    const ageMs = nowMs - this.#current.startMs;
    // If the clock was set back, a new generation starts at once.
    if (ageMs >= GENERATION_MS || ageMs < 0) {
      const isRecent = ageMs >= 0 && ageMs < 2 * GENERATION_MS;
      this.#previous = isRecent ? this.#current : undefined;
      this.#current = this.#newGeneration(nowMs);
    }
    return this.#current;
  }

  /** Returns the summary of a policy in this process. */
  data(policy: string, by: TopBy): TopData {
    this.#currentGeneration();
    const generations = [this.#previous, this.#current].filter((each) => each !== undefined);
    const all = generations.map(({ policies }) => policies.get(policy)?.[by]?.data());
    const merged = new HeavyHitters();
    for (const data of all) if (data !== undefined) merged.merge(data);
    return { ...merged.data(), sinceMs: generations[0].startMs };
  }

  top(policy: string, { by = 'denied', count = 20 }: TopOptions = {}): TopReport {
    return topReport(policy, by, count, [this.data(policy, by)]);
  }
}

/** Returns the merged report of several processes. */
export function topReport(
  policy: string,
  by: TopBy,
  count: number,
  parts: readonly TopData[],
): TopReport {
  const merged = new HeavyHitters();
  for (const part of parts) merged.merge(part);
  const { hits, lacking, keys } = merged.data();
  return {
    policy,
    by,
    sinceMs: Math.min(...parts.map((part) => part.sinceMs)),
    hits,
    othersAtMost: (keys[count]?.[1] ?? 0) + lacking,
    keys: keys.slice(0, count).map(([key, least]) => ({
      key,
      atLeast: least,
      atMost: least + lacking,
    })),
  };
}

function countOf(text: string | null): number {
  if (text === null) return 20;
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= KEPT_KEYS) return count;
  const what = `Expected \`count\` to be an integer from 1 to ${KEPT_KEYS}, got \`${text}\``;
  throw badRequest('ERR_INVALID_OPTION', what.slice(0, 200));
}

function byOf(text: string | null): TopBy {
  if (text === null || text === 'denied' || text === 'allowed') return text ?? 'denied';
  const what = `Expected \`by\` to be denied or allowed, got \`${text.slice(0, 60)}\``;
  throw badRequest('ERR_INVALID_OPTION', what);
}

/** Resolves to the summaries of all processes. */
export type TopSource = (policy: string, by: TopBy) => Promise<readonly TopData[]>;

export function topRoutes(router: Router, parts: LabelParts, source: TopSource): void {
  router.add('GET', '/v1/top', 'admin', async (context: RequestContext) => {
    context.checkQuery('policy', 'by', 'count');
    const { query } = context;
    const policy = query.get('policy') ?? '';
    const by = byOf(query.get('by'));
    const count = countOf(query.get('count'));
    checkLabel(parts, policy);
    context.send(200, topReport(policy, by, count, await source(policy, by)));
  });
}
