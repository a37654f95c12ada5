/** What the admin API answers, as docs/http-api.md tells. */
import type { AlgorithmName } from 'sluice';

export type { AlgorithmName };

export interface SessionReport {
  /** Whether a token is needed here at all. */
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
  /** What the files say, where the API says something too. */
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

/** Without an end it counts until it is taken away. */
export interface OverrideFields {
  readonly limit: number;
  readonly expiresAt?: number;
  /** By the clock of the service, which need not be that of this browser. */
  readonly expiresInMs?: number;
  readonly reason?: string;
}

/** What a change is answered with. */
export interface Kept {
  /** Whether it is there after a restart. */
  readonly persisted: boolean;
}

export interface ShadowChange extends Kept {
  /** Undefined if the files do not have it any more. */
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
  /** The time that all this is of. */
  readonly atMs: number;
  /** Until a call of cost 1 passes; 0 if it does now. */
  readonly nextMs: number;
}

/** What a limit says of a call that is not made. */
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

/** What was decided in a second. */
export interface Counts {
  readonly allowed: number;
  readonly denied: number;
  /** What policies in shadow would have done. */
  readonly shadowAllowed: number;
  readonly shadowDenied: number;
  readonly degraded: number;
  /** How full the fullest key was that was decided, from 0 to 1; null if none was. */
  readonly fullest: number | null;
}

export const COUNTED = ['allowed', 'denied', 'shadowDenied', 'degraded'] as const;

/** The same for many seconds, the oldest first. */
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
  /** Not there if no wait helps. */
  readonly retryAfterMs?: number;
  /** Not known of a limit in shadow that came with a request. */
  readonly windowMs?: number;
  readonly algorithm?: AlgorithmName;
  readonly shadow?: true;
  readonly degraded?: { readonly reason: string; readonly action: string };
}

/** Of a service whose files have mistakes, so that what it read before them still counts. */
export interface ReadyReport {
  readonly ready: boolean;
  readonly config: { readonly ok: boolean; readonly problems?: readonly string[] };
}

export interface StoreReport {
  readonly kind: string;
  readonly up: boolean;
  readonly breaker?: 'closed' | 'open' | 'probing';
  /** How long the store took to decide when it was last asked, only to see whether it does. */
  readonly latencyMs?: number;
  readonly keys?: number;
}

export interface Tick {
  /** The start of the second that it is about. */
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
