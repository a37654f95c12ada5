/**
 * Requests and responses of Envoy's rate limit service as plain data: the messages of `proto/`,
 * parsed from gRPC or JSON. Fields that were not sent are missing.
 */

export interface RateLimitRequest {
  readonly domain?: string;
  readonly descriptors?: readonly Descriptor[];
  readonly hitsAddend?: number;
}

export interface Descriptor {
  readonly entries?: readonly { readonly key?: string; readonly value?: string }[];
  readonly limit?: { readonly requestsPerUnit?: number; readonly unit?: number };
  readonly hitsAddend?: { readonly value?: number };
  readonly isNegativeHits?: boolean;
}

export const CODE = { UNKNOWN: 0, OK: 1, OVER_LIMIT: 2 } as const;
export type Code = (typeof CODE)[keyof typeof CODE];

export const UNIT = {
  UNKNOWN: 0,
  SECOND: 1,
  MINUTE: 2,
  HOUR: 3,
  DAY: 4,
  MONTH: 5,
  YEAR: 6,
  WEEK: 7,
} as const;
export type Unit = (typeof UNIT)[keyof typeof UNIT];

export interface RateLimitResponse {
  readonly overallCode: Code;
  readonly statuses: readonly DescriptorStatus[];
  readonly responseHeadersToAdd: readonly HeaderValue[];
  /** Plain data. gRPC converts it to a `Struct`. */
  readonly dynamicMetadata?: Readonly<Record<string, unknown>>;
}

export interface DescriptorStatus {
  readonly code: Code;
  readonly currentLimit?: RateLimit;
  readonly limitRemaining?: number;
  readonly durationUntilReset?: Duration;
}

export interface RateLimit {
  readonly requestsPerUnit: number;
  readonly unit: Unit;
  readonly name?: string;
}

export interface Duration {
  readonly seconds: number;
  readonly nanos: number;
}

export interface HeaderValue {
  readonly key: string;
  readonly value: string;
}

export const MAX_UINT32 = 2 ** 32 - 1;

const SECOND_MS = 1000;
const DAY_MS = 86_400 * SECOND_MS;

/** A month has 30 days and a year 365, as in envoyproxy/ratelimit. */
const WINDOWS_MS: ReadonlyMap<Unit, number> = new Map([
  [UNIT.SECOND, SECOND_MS],
  [UNIT.MINUTE, 60 * SECOND_MS],
  [UNIT.HOUR, 3600 * SECOND_MS],
  [UNIT.DAY, DAY_MS],
  [UNIT.WEEK, 7 * DAY_MS],
  [UNIT.MONTH, 30 * DAY_MS],
  [UNIT.YEAR, 365 * DAY_MS],
]);

const UNITS: ReadonlyMap<number, Unit> = new Map(
  [...WINDOWS_MS].map(([unit, windowMs]) => [windowMs, unit]),
);

/** Returns the duration of a unit, or undefined for an unknown unit. */
export const windowOfUnit = (unit: number): number | undefined => WINDOWS_MS.get(unit as Unit);

/** Returns the unit with the duration of a window, or UNKNOWN if there is none. */
export const unitOfWindow = (windowMs: number): Unit => UNITS.get(windowMs) ?? UNIT.UNKNOWN;

export const durationOf = (ms: number): Duration => {
  const seconds = Math.floor(ms / SECOND_MS);
  return { seconds, nanos: (ms - seconds * SECOND_MS) * 1e6 };
};
