/** The words of both forms of files, for the readers and for the schema that editors use. */
import type { AlgorithmName, FailureAction } from 'sluice';
import { fileKeyOf, SETTING_NAMES, SETTINGS } from '../settings.ts';

export const SETTING_FIELDS = SETTING_NAMES.filter((name) => !SETTINGS[name].notInFile);

export const SECTIONS = ['policies', 'rules', 'overrides', 'domains'] as const;

/** All that Sluice's own file may have at its top. */
export const TOP_FIELDS = [...SETTING_FIELDS.map(fileKeyOf), ...SECTIONS];

export const POLICY_FIELDS = [
  ...(['limit', 'window', 'algorithm', 'buckets', 'burst', 'costs'] as const),
  ...(['onFailure', 'shadow'] as const),
];
export const RULE_FIELDS = ['name', 'match', 'limits', 'continue'] as const;
export const REQUEST_MATCH_FIELDS = [
  ...(['path', 'method', 'host', 'headers', 'caseSensitive'] as const),
];
export const DESCRIPTOR_MATCH_FIELDS = ['domain', 'descriptor'] as const;
export const RULE_LIMIT_FIELDS = ['policy', 'key', 'cost', 'operation'] as const;
export const OVERRIDE_FIELDS = ['policy', 'key', 'limit', 'expires', 'reason'] as const;

/** Those with `*` are looked through one by one. */
export const MAX_OVERRIDES = 10_000;

export const DOMAIN_FIELDS = ['domain', 'descriptors'] as const;
export const DESCRIPTOR_FIELDS = [
  ...(['key', 'value', 'rate_limit', 'descriptors', 'shadow_mode', 'quota_mode'] as const),
  ...(['share_threshold', 'detailed_metric', 'value_to_metric', 'metadata'] as const),
];
export const RATE_LIMIT_FIELDS = [
  ...(['unit', 'requests_per_unit', 'unlimited', 'name', 'replaces'] as const),
  // Not known to envoyproxy/ratelimit: any window, and what else a policy can say.
  ...(['window', 'limit', 'algorithm', 'buckets', 'burst', 'on_failure'] as const),
];

export const ALGORITHMS: readonly AlgorithmName[] = [
  ...(['fixed-window', 'sliding-log', 'sliding-counter', 'sliding-buckets'] as const),
  'token-bucket',
];
export const FAILURE_ACTIONS: readonly FailureAction[] = ['allow', 'deny', 'local', 'throw'];

const DAY_MS = 86_400_000;
export const UNIT_MS = {
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
  year: 365 * DAY_MS,
} as const;
export const UNITS = Object.keys(UNIT_MS) as readonly (keyof typeof UNIT_MS)[];
/** What Envoy's messages can carry. */
export const MAX_REQUESTS = 2 ** 32 - 1;

export const DURATION = /^\d{1,15}(?:ms|s|m|h|d|w)$/;
export const SHORT_POLICY = /^\d{1,16}(?:\/| per )\d{1,15}(?:ms|s|m|h|d|w)$/;

/** A policy's name: it is in keys, metrics and fields of HTTP, so nothing that cannot be seen. */
export const POLICY_NAME = /^(?!sluice\.)[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u;
export const POLICY_NAME_TEXT = '1 to 128 printable characters that do not begin with `sluice.`';

/** What rules are called in logs and messages. */
export const RULE_NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,128}$/u;
export const RULE_NAME_TEXT = '1 to 128 printable characters';

/** Names of header fields and cookies, without `|`, which separates sources of a key. */
export const FIELD_NAME = /^[\w!#$%&'*+.^`~-]+$/;

/** Where parts of the keys of requests come from. */
export const REQUEST_SOURCES = [
  ...(['address', 'method', 'path', 'host'] as const),
  ...(['header:NAME', 'cookie:NAME', 'query:NAME', 'text:LITERAL'] as const),
];
