/** Requests, responses and events of the admin API, documented in docs/http-api.md. */
import type { AlgorithmName, LimitParams, WindowAlgorithmName } from 'sluice';

export type { AlgorithmName, LimitParams, WindowAlgorithmName };

export interface SessionReport {
  /** Whether the service requires an admin token. */
  readonly required: boolean;
  readonly signedIn: boolean;
  readonly expiresAtMs?: number;
}

export interface PolicyDefinition {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly algorithm: AlgorithmName;
  readonly burst?: number;
  readonly buckets?: number;
  /** A denied key is blocked for `min(forMs * factor^k, maxMs)` after k blocks in a row. */
  readonly block?: {
    readonly forMs: number;
    readonly factor: number;
    readonly maxMs: number;
  };
  readonly costs: Readonly<Record<string, number>>;
  readonly shadow: boolean;
  readonly shadowBy: 'file' | 'api';
  /** Value of `shadow` in the configuration files; present if the API has overridden it. */
  readonly shadowInFile?: boolean;
  readonly onFailure?: string;
  readonly overrides: number;
}

export interface Override {
  readonly policy: string;
  /** A key, or a pattern with `*`. */
  readonly key: string;
  readonly limit: number;
  readonly expiresAtMs?: number;
  readonly reason?: string;
  readonly source: 'file' | 'api';
  readonly persisted?: boolean;
}

/** An override without `expiresAt` and `expiresInMs` applies until it is removed. */
export interface OverrideFields {
  readonly limit: number;
  readonly expiresAt?: number;
  /** Time until the override expires. Unlike `expiresAt`, independent of the browser's clock. */
  readonly expiresInMs?: number;
  readonly reason?: string;
}

export interface ChangeResult {
  /** Whether the change survives a restart. */
  readonly persisted: boolean;
}

export interface ShadowChange extends ChangeResult {
  /** The changed policy; undefined if the configuration no longer contains it. */
  readonly policy?: PolicyDefinition;
}

export interface KeyReport {
  readonly policy: string;
  readonly key: string;
  /** Whether the store has state for the key. */
  readonly held: boolean;
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  readonly windowMs: number;
  readonly used: number;
  readonly remaining: number;
  readonly resetAfterMs: number;
  readonly cells: readonly number[];
  readonly entries: readonly { readonly atMs: number; readonly cost: number }[];
  readonly entryCount: number;
  /** The holds of a concurrency limit, in the order in which they expire. */
  readonly holds?: readonly Hold[];
  /** Units that processes have borrowed. */
  readonly leases?: readonly LentUnits[];
  /** End of the current block; undefined if the key is not blocked. */
  readonly blockedUntilMs?: number;
  /** Number of blocks in a row. */
  readonly blocks?: number;
  readonly override?: Override;
  /** When the store read the state, in ms by its clock. */
  readonly atMs: number;
  /** Time until a call of cost 1 is admitted; 0 if it would be admitted immediately. */
  readonly nextMs: number;
  /** Time until a call of the requested cost is admitted; undefined if it exceeds the limit. */
  readonly nextForCostMs?: number;
}

export interface LentUnits {
  readonly id: number;
  readonly units: number;
  readonly endsAtMs: number;
}

export interface Hold {
  readonly fence: number;
  readonly cost: number;
  /** When the hold was taken or last renewed. */
  readonly atMs: number;
  readonly expiresAtMs: number;
  readonly label?: string;
}

export type TopBy = 'denied' | 'allowed';

export interface TopReport {
  readonly policy: string;
  readonly by: TopBy;
  readonly sinceMs: number;
  /** Number of denied or allowed calls of all keys since `sinceMs`. */
  readonly hits: number;
  /** Upper bound of the calls of each key that is not in `keys`. */
  readonly othersAtMost: number;
  readonly keys: readonly {
    readonly key: string;
    /** Bounds of the number of calls of the key. */
    readonly atLeast: number;
    readonly atMost: number;
  }[];
}

/** Numbers of decisions in one time step. */
export interface Counts {
  readonly allowed: number;
  readonly denied: number;
  /** Decisions of policies in shadow mode are counted here, not in `allowed` and `denied`. */
  readonly shadowAllowed: number;
  readonly shadowDenied: number;
  readonly degraded: number;
  /**
   * The largest share of its limit that a key had used, from 0 to 1. It is 1 if a check was denied,
   * and null if there was no decision.
   */
  readonly fullest: number | null;
}

/** The counts that the dashboard shows for every policy. */
export const COUNT_FIELDS = ['allowed', 'denied', 'shadowDenied', 'degraded'] as const;

/**
 * For each field of `Counts`, its values in consecutive steps, oldest first. Null if unknown:
 * before the start of the service, or not yet received.
 */
export type CountSeries = {
  readonly [Field in keyof Counts]: readonly (Counts[Field] | null)[];
};

export interface SeriesReport {
  /** Length of a step: a second, or a number of minutes. */
  readonly stepMs: number;
  readonly startMs: number;
  /** When the service began to record counts. The report has 0 for earlier, unknown steps. */
  readonly sinceMs: number;
  readonly total: CountSeries;
  readonly policies: readonly (CountSeries & { readonly name: string })[];
  /** Number of policies with decisions that are not in `policies`. */
  readonly omitted: number;
}

export interface Denial {
  readonly atMs: number;
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  readonly limit: number;
  readonly remaining: number;
  /** Undefined if the request can never be admitted. */
  readonly retryAfterMs?: number;
  /** End of the current block; undefined if the key is not blocked. */
  readonly blockedUntilMs?: number;
  /** Undefined for an inline limit in shadow mode. */
  readonly windowMs?: number;
  readonly algorithm?: AlgorithmName;
  readonly shadow?: true;
  readonly degraded?: { readonly reason: string; readonly action: string };
  /** Number of earlier denials of the same policy and key in the same second. */
  readonly repeats?: number;
}

/** If `config.ok` is false, the last valid configuration is still in effect. */
export interface ReadyReport {
  readonly ready: boolean;
  readonly config: { readonly ok: boolean; readonly problems?: readonly string[] };
}

export interface StoreReport {
  readonly kind: string;
  readonly up: boolean;
  readonly breaker?: 'closed' | 'open' | 'probing';
  /** Duration of the last health check. */
  readonly latencyMs?: number;
  readonly keys?: number;
}

export interface Tick {
  /** Start of the second that the counts are for. */
  readonly atMs: number;
  readonly total: Counts;
  readonly policies: readonly (Counts & { readonly name: string })[];
  /** Number of policies with decisions in this second that are not in `policies`. */
  readonly omitted: number;
  readonly store: StoreReport;
  readonly decisions: { readonly p50Ms?: number; readonly p99Ms?: number };
  readonly processes: number;
  readonly denials: readonly Denial[];
  /** Number of further denials that match the filter, including the `repeats`. */
  readonly denialsOmitted: number;
}

export interface HelloEvent {
  readonly version: string;
  readonly startedAtMs: number;
  readonly atMs: number;
  readonly processes: number;
  /** Address of the Grafana dashboard, if it is configured. */
  readonly grafanaUrl?: string;
}

export interface ChangedEvent {
  readonly what: 'policies' | 'overrides';
}

export interface EndEvent {
  readonly why: 'expired' | 'stopping' | 'slow';
}
