/** Responses of the admin API, documented in docs/http-api.md. */
import type { AlgorithmName, LimitParams } from 'sluice';

export type { AlgorithmName, LimitParams };

export interface SessionReport {
  /** Whether the service has an admin token. */
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
  readonly costs: Readonly<Record<string, number>>;
  readonly shadow: boolean;
  readonly shadowBy: 'file' | 'api';
  /** The value in the configuration files, if the API has overridden it. */
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

/** Without `expiresAt` and `expiresInMs` it applies until removed. */
export interface OverrideFields {
  readonly limit: number;
  readonly expiresAt?: number;
  /** Measured by the service's clock, not the browser's. */
  readonly expiresInMs?: number;
  readonly reason?: string;
}

export interface ChangeResult {
  /** Whether the change survives a restart. */
  readonly persisted: boolean;
}

export interface ShadowChange extends ChangeResult {
  /** Undefined if the files no longer define the policy. */
  readonly policy?: PolicyDefinition;
}

export interface KeyReport {
  readonly policy: string;
  readonly key: string;
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
  readonly override?: Override;
  /** When the state was read, by the store's clock. */
  readonly atMs: number;
  /** Time until a call of cost 1 is admitted; 0 for now. */
  readonly nextMs: number;
}

export interface Peek {
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly retryAfterMs: number;
  readonly resetAfterMs: number;
  readonly atMs: number;
}

export type TopBy = 'denied' | 'allowed';

export interface TopReport {
  readonly policy: string;
  readonly by: TopBy;
  readonly sinceMs: number;
  readonly hits: number;
  readonly othersAtMost: number;
  readonly keys: readonly {
    readonly key: string;
    readonly atLeast: number;
    readonly atMost: number;
  }[];
}

/** Decisions of one second. */
export interface Counts {
  readonly allowed: number;
  readonly denied: number;
  /** Decisions of shadow policies. */
  readonly shadowAllowed: number;
  readonly shadowDenied: number;
  readonly degraded: number;
  /** Highest used/limit of any key decided, from 0 to 1; null if there was none. */
  readonly fullest: number | null;
}

export const COUNTED = ['allowed', 'denied', 'shadowDenied', 'degraded'] as const;

/** Counts of consecutive seconds, oldest first. */
export type CountSeries = {
  readonly [Field in keyof Counts]: readonly Counts[Field][];
};

export interface SeriesReport {
  readonly stepMs: number;
  readonly startMs: number;
  readonly total: CountSeries;
  readonly policies: readonly (CountSeries & { readonly name: string })[];
  readonly omitted: number;
}

export interface Denial {
  readonly atMs: number;
  readonly policy: string;
  readonly key: string;
  readonly cost: number;
  readonly limit: number;
  readonly remaining: number;
  /** Undefined if no wait is long enough. */
  readonly retryAfterMs?: number;
  /** Undefined for an inline shadow limit. */
  readonly windowMs?: number;
  readonly algorithm?: AlgorithmName;
  readonly shadow?: true;
  readonly degraded?: { readonly reason: string; readonly action: string };
}

/** If `config.ok` is false, the previous configuration is still in effect. */
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
  /** Start of the second. */
  readonly atMs: number;
  readonly total: Counts;
  readonly policies: readonly (Counts & { readonly name: string })[];
  readonly omitted: number;
  readonly store: StoreReport;
  readonly decisions: { readonly p50Ms?: number; readonly p99Ms?: number };
  readonly processes: number;
  readonly denials: readonly Denial[];
  readonly denialsOmitted: number;
}

export interface Hello {
  readonly version: string;
  readonly startedAtMs: number;
  readonly atMs: number;
  readonly processes: number;
}

export interface Changed {
  readonly what: 'policies' | 'overrides';
}

export interface End {
  readonly why: 'expired' | 'stopping' | 'slow';
}
