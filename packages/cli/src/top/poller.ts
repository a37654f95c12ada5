/** Polls a service and computes rates from its counters. */
import { systemClock } from 'sluice';
import type { Client } from '../client.ts';
import { Failure } from '../output.ts';
import { readMetrics, type Sample } from './metrics.ts';

/** The state of a policy in one snapshot. */
export interface PolicyState {
  readonly name: string;
  /** `limit`, `windowMs` and `algorithm` are undefined for limits that requests define inline. */
  readonly limit: number | undefined;
  readonly windowMs: number | undefined;
  readonly algorithm: string | undefined;
  readonly shadow: boolean;
  /** Numbers of decisions since the service started. In shadow mode, hypothetical decisions. */
  readonly allowed: number;
  readonly denied: number;
  /** Rates since the previous snapshot. Undefined in the first snapshot. */
  readonly allowedPerSecond: number | undefined;
  readonly deniedPerSecond: number | undefined;
}

/** Decisions per second between the last snapshots, oldest first. */
export interface Rates {
  readonly allowed: readonly number[];
  readonly denied: readonly number[];
}

export interface TopKey {
  readonly policy: string;
  readonly key: string;
  readonly atLeast: number;
  readonly atMost: number;
}

export interface Snapshot {
  readonly url: string;
  readonly atMs: number;
  readonly ready: boolean;
  readonly draining: boolean;
  readonly storeUp: boolean;
  readonly breaker: string | undefined;
  readonly configOk: boolean;
  readonly version: string | undefined;
  /**
   * Number of keys in the memory store. Undefined for other stores, which do not count their keys.
   */
  readonly keys: number | undefined;
  readonly evicted: number;
  /** Checks that were decided without the store, because it was unavailable. */
  readonly degraded: number;
  /** Denials of blocked keys. */
  readonly blocked: number;
  readonly policies: readonly PolicyState[];
  readonly mostDenied: readonly TopKey[];
  readonly mostAllowed: readonly TopKey[];
}

/**
 * The last snapshot, with the mean rates over the last `KEPT_RATES` intervals. Policies are in the
 * order of `sortByRates`.
 */
export interface TopResult extends Snapshot {
  readonly kind: 'top';
  readonly firstMs: number;
  readonly policies: readonly (PolicyState & { readonly rates: Rates })[];
}

const KEPT_RATES = 240;
/** Top keys are requested only for this many policies, those with the highest rates. */
const MAX_POLICIES = 8;
const MAX_KEYS = 20;

interface Definition {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly algorithm: string;
  readonly shadow: boolean;
}

interface Ready {
  readonly ready: boolean;
  readonly draining?: boolean;
  readonly store: { readonly up: boolean; readonly breaker?: string };
  readonly config: { readonly ok: boolean };
}

interface Counts {
  readonly allowed: number;
  readonly denied: number;
}

type Metrics = ReadonlyMap<string, readonly Sample[]>;

const sumOf = (samples: readonly Sample[] = []): number =>
  samples.reduce((sum, { value }) => sum + value, 0);

export class ServicePoller {
  readonly #client: Client;
  readonly #rates = new Map<string, { allowed: number[]; denied: number[] }>();
  #counts: ReadonlyMap<string, Counts> = new Map();
  #countedMs: number | undefined = undefined;
  /**
   * Seconds between the last snapshots, oldest first. A rate of each policy belongs to each
   * interval.
   */
  readonly #passedS: number[] = [];

  constructor(client: Client) {
    this.#client = client;
  }

  ratesOf(policy: string): Rates {
    return this.#rates.get(policy) ?? { allowed: [], denied: [] };
  }

  /** Requests a snapshot of the service. Throws a `Failure` if the service is unreachable. */
  async poll(): Promise<Snapshot> {
    const client = this.#client;
    const [policies, ready, text] = await Promise.all([
      client.request('GET', '/v1/policies'),
      client.request('GET', '/readyz'),
      client.requestText('/metrics'),
    ]);
    const atMs = systemClock.now();
    const metrics = readMetrics(text);
    const { policies: definitions } = policies.body as { policies?: readonly Definition[] };
    if (!Array.isArray(definitions)) {
      throw new Failure(
        `Expected policies from the service at ${client.url}, got another response`,
      );
    }
    const states = this.#states(definitions, metrics, atMs);
    const names = sortByRates(states)
      .slice(0, MAX_POLICIES)
      .map(({ name }) => name);
    const [mostDenied, mostAllowed] = await Promise.all([
      this.#topKeys(names, 'denied'),
      this.#topKeys(names, 'allowed'),
    ]);
    const health = healthOf(ready.body as Ready, metrics);
    return { url: client.url, atMs, ...health, policies: states, mostDenied, mostAllowed };
  }

  #states(definitions: readonly Definition[], metrics: Metrics, atMs: number): PolicyState[] {
    const counts = countsOf(metrics);
    const before = this.#countedMs;
    const passedS = before === undefined ? 0 : (atMs - before) / 1000;
    const byName = new Map(definitions.map((each) => [each.name, each]));
    // The metrics also have limits that requests define inline; the configuration does not.
    const names = new Set([...byName.keys(), ...counts.keys()]);
    const states = [...names].map((name) => {
      const { allowed, denied } = counts.get(name) ?? { allowed: 0, denied: 0 };
      const last = this.#counts.get(name) ?? { allowed: 0, denied: 0 };
      const perSecond = (now: number, then: number): number | undefined =>
        // If a counter is smaller than before, the service has restarted and counts from 0.
        passedS > 0 ? (now >= then ? now - then : now) / passedS : undefined;
      const definition = byName.get(name);
      return {
        name,
        limit: definition?.limit,
        windowMs: definition?.windowMs,
        algorithm: definition?.algorithm,
        shadow: definition?.shadow ?? false,
        allowed,
        denied,
        allowedPerSecond: perSecond(allowed, last.allowed),
        deniedPerSecond: perSecond(denied, last.denied),
      };
    });
    if (passedS > 0) appendRate(this.#passedS, passedS);
    for (const state of states) this.#keepRates(state);
    this.#counts = counts;
    this.#countedMs = atMs;
    return states;
  }

  #keepRates({ name, allowedPerSecond, deniedPerSecond }: PolicyState): void {
    if (allowedPerSecond === undefined || deniedPerSecond === undefined) return;
    const rates = this.#rates.get(name) ?? { allowed: [], denied: [] };
    this.#rates.set(name, rates);
    appendRate(rates.allowed, allowedPerSecond);
    appendRate(rates.denied, deniedPerSecond);
  }

  /** Returns the snapshot with the mean rates over the last `KEPT_RATES` intervals. */
  summary(snapshot: Snapshot): TopResult {
    const watchedS = this.#passedS.reduce((sum, each) => sum + each, 0);
    const policies = sortByRates(
      snapshot.policies.map((policy) => {
        const { allowed, denied } = this.ratesOf(policy.name);
        return {
          ...policy,
          allowedPerSecond: this.#mean(allowed),
          deniedPerSecond: this.#mean(denied),
        };
      }),
    );
    return {
      kind: 'top',
      ...snapshot,
      firstMs: snapshot.atMs - Math.round(1000 * watchedS),
      policies: policies.map((policy) => ({ ...policy, rates: this.ratesOf(policy.name) })),
    };
  }

  /**
   * Returns the mean rate over all stored intervals. If a policy appeared later, its rate counts as
   * 0 in the intervals before.
   */
  #mean(rates: readonly number[]): number | undefined {
    if (rates.length === 0) return undefined;
    const passed = this.#passedS.slice(-rates.length);
    const sum = rates.reduce((all, rate, at) => all + rate * passed[at], 0);
    return sum / this.#passedS.reduce((all, each) => all + each, 0);
  }

  async #topKeys(policies: readonly string[], by: 'denied' | 'allowed'): Promise<TopKey[]> {
    const all = policies.map(async (policy) => {
      const query = new URLSearchParams({ policy, by, count: String(MAX_KEYS) });
      const { body } = await this.#client.request('GET', `/v1/top?${query}`).catch(emptyIfUnknown);
      const { keys = [] } = body as { keys?: readonly Omit<TopKey, 'policy'>[] };
      return keys.map(({ key, atLeast, atMost }) => ({ policy, key, atLeast, atMost }));
    });
    const keys = (await Promise.all(all)).flat().filter(({ atLeast }) => atLeast > 0);
    return keys.sort((a, b) => b.atLeast - a.atLeast).slice(0, MAX_KEYS);
  }
}

/** Appends a value. Removes the oldest value if there are more than `KEPT_RATES`. */
function appendRate(values: number[], value: number): void {
  values.push(value);
  if (values.length > KEPT_RATES) values.shift();
}

/**
 * Returns a body without keys if the service does not know the policy: a reload has removed it in
 * the meantime. Throws any other error.
 */
function emptyIfUnknown(error: unknown): { body: object } {
  if (error instanceof Failure && error.message.includes('ERR_UNKNOWN_POLICY')) return { body: {} };
  throw error;
}

/** Sorts policies by denial rate, then by admission rate, then by totals, highest first. */
export const sortByRates = <State extends PolicyState>(
  policies: readonly State[],
): readonly State[] =>
  [...policies].sort(
    (a, b) =>
      (b.deniedPerSecond ?? 0) - (a.deniedPerSecond ?? 0) ||
      (b.allowedPerSecond ?? 0) - (a.allowedPerSecond ?? 0) ||
      b.denied - a.denied ||
      b.allowed - a.allowed,
  );

/**
 * Sums the allowed and the denied decisions of each policy. Includes the hypothetical decisions of
 * policies in shadow mode, whose outcomes are `shadow_allowed` and `shadow_denied`. Ignores other
 * outcomes.
 */
function countsOf(metrics: Metrics): ReadonlyMap<string, Counts> {
  const counts = new Map<string, { allowed: number; denied: number }>();
  for (const { labels, value } of metrics.get('sluice_decisions_total') ?? []) {
    const { policy = '', outcome = '' } = labels;
    const own = counts.get(policy) ?? { allowed: 0, denied: 0 };
    counts.set(policy, own);
    if (outcome.endsWith('allowed')) own.allowed += value;
    else if (outcome.endsWith('denied')) own.denied += value;
  }
  return counts;
}

function healthOf({ ready, draining = false, store, config }: Ready, metrics: Metrics) {
  return {
    ready,
    draining,
    storeUp: store.up,
    breaker: store.breaker,
    configOk: config.ok,
    version: metrics.get('sluice_build_info')?.[0]?.labels.version,
    keys: metrics.get('sluice_keys')?.[0]?.value,
    evicted: sumOf(metrics.get('sluice_evicted_keys_total')),
    degraded: sumOf(metrics.get('sluice_degraded_total')),
    blocked: sumOf(metrics.get('sluice_blocked_total')),
  };
}
