/**
 * What Envoy asks and is answered, as plain data: the messages of `proto/` in the form that gRPC
 * reads them into, which the JSON endpoint makes as well. Whatever was not sent is missing.
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
  /** As plain data; only gRPC needs it as a `Struct`. */
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

/** A month is 30 days and a year 365, as envoyproxy/ratelimit has it: windows do not change. */
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

/** How long a unit is; undefined for one that is not known. */
export const windowOfUnit = (unit: number): number | undefined => WINDOWS_MS.get(unit as Unit);

/** The unit that a window is, if it is one. */
export const unitOfWindow = (windowMs: number): Unit => UNITS.get(windowMs) ?? UNIT.UNKNOWN;

export const durationOf = (ms: number): Duration => {
  const seconds = Math.floor(ms / SECOND_MS);
  return { seconds, nanos: (ms - seconds * SECOND_MS) * 1e6 };
};
