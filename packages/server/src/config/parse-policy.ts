/** Policies as files write them. What makes one sound is the library's to say; where, is ours. */
import { definePolicy, type Policy, type PolicyOptions, SluiceError } from 'sluice';
import type { PolicyConfig } from './model.ts';
import { type Fields, quoted, type Value } from './value.ts';
import {
  ALGORITHMS,
  DURATION,
  FAILURE_ACTIONS,
  POLICY_FIELDS,
  POLICY_NAME,
  POLICY_NAME_TEXT,
  SHORT_POLICY,
} from './vocabulary.ts';

export type FixedOptions = PolicyOptions & { readonly limit: number };

/** Where each field of a policy stands, to say there what is wrong with it. */
export type Places = Readonly<Record<keyof PolicyOptions, Value>>;

export interface CheckedPolicy {
  readonly config: PolicyConfig;
  readonly policy: Policy;
}

/** A duration: text such as 1m, or a number of milliseconds. */
export function parseWindow(value: Value): string | number | undefined {
  const { plain } = value;
  if (typeof plain === 'string' && DURATION.test(plain)) return plain;
  if (Number.isSafeInteger(plain) && (plain as number) >= 1) return plain as number;
  return value.expected('a duration such as 10s, 1m or 1d');
}

/** A field that may be missing; `false` if it is there and wrong. */
export function optional<T>(value: Value, read: (value: Value) => T | undefined) {
  return value.isMissing ? undefined : (read(value) ?? false);
}

function readCosts(value: Value): Record<string, number> | undefined {
  if (!value.isMap) return value.expected('a map of operations to their costs');
  const { entries } = value.fields(value.label);
  const costs = entries.map(([operation, cost]) => [operation, cost.integer(1)] as const);
  const isSound = costs.every(([, cost]) => cost !== undefined);
  return isSound ? (Object.fromEntries(costs) as Record<string, number>) : undefined;
}

/** The fields that are the same in both forms of files, except for their names. */
export function parseOptions(
  limit: number | undefined,
  window: string | number | undefined,
  places: Places,
): FixedOptions | undefined {
  const algorithm = optional(places.algorithm, (value) => value.oneOf(ALGORITHMS));
  const buckets = optional(places.buckets, (value) => value.integer(1));
  const burst = optional(places.burst, (value) => value.integer(1));
  const costs = optional(places.costs, readCosts);
  const onFailure = optional(places.onFailure, (value) => value.oneOf(FAILURE_ACTIONS));
  if (limit === undefined || window === undefined) return undefined;
  if (algorithm === false || buckets === false || burst === false) return undefined;
  if (costs === false || onFailure === false) return undefined;
  return {
    limit,
    window,
    ...(algorithm === undefined ? {} : { algorithm }),
    ...(buckets === undefined ? {} : { buckets }),
    ...(burst === undefined ? {} : { burst }),
    ...(costs === undefined ? {} : { costs }),
    ...(onFailure === undefined ? {} : { onFailure }),
  };
}

/** What the library finds wrong, by code, is wrong about this field. */
const FIELD_OF_CODE: Readonly<Record<string, keyof PolicyOptions>> = {
  ERR_INVALID_LIMIT: 'limit',
  ERR_LIMIT_TOO_LARGE: 'limit',
  ERR_INVALID_WINDOW: 'window',
  ERR_INVALID_ALGORITHM: 'algorithm',
  ERR_INVALID_BUCKETS: 'buckets',
  ERR_INVALID_BURST: 'burst',
  ERR_INVALID_COSTS: 'costs',
  ERR_INVALID_OPTION: 'onFailure',
};

/** Has the library check what fits together. What is wrong is left out, and the rest checked on. */
export function checkedPolicy(
  name: string,
  options: FixedOptions,
  shadow: boolean,
  places: Places,
): CheckedPolicy | undefined {
  const { costs, ...rest } = options;
  const policy = validatePolicy(name, rest, places);
  if (policy === undefined) return undefined;
  const { capacity } = policy.params!;
  const tooDear = Object.entries(costs ?? {}).filter(([, cost]) => cost > capacity);
  if (tooDear.length > 0) {
    const operations = places.costs.fields(places.costs.label);
    for (const [operation] of tooDear) {
      operations.get(operation).expected(`an integer from 1 to ${capacity}`);
    }
    return undefined;
  }
  return { config: { name, options, shadow }, policy: definePolicy(name, options) };
}

function validatePolicy(name: string, options: FixedOptions, places: Places): Policy | undefined {
  try {
    return definePolicy(name, options);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const isBurst = error.message.startsWith('Expected burst');
    const field = isBurst ? 'burst' : FIELD_OF_CODE[error.code];
    places[field].report(error.message);
    const { buckets, burst, ...needed } = options;
    if (field === 'buckets') validatePolicy(name, burst ? { ...needed, burst } : needed, places);
    if (field === 'burst') validatePolicy(name, needed, places);
    return undefined;
  }
}

/** One entry of `policies`: `100/1m`, or a map. */
export function parsePolicy(name: string, value: Value): CheckedPolicy | undefined {
  const owner = `policy \`${name}\``;
  if (!POLICY_NAME.test(name)) {
    const what = `the name of a policy to be ${POLICY_NAME_TEXT}`;
    return value.reportKey(`Expected ${what}, got ${quoted(name)}`);
  }
  if (!value.isMap) return readShort(name, owner, value);
  const fields = value.fields(owner, POLICY_FIELDS);
  const places = placesIn(fields);
  const options = parseOptions(places.limit.integer(1), parseWindow(places.window), places);
  const shadow = fields.get('shadow').flag();
  return options && checkedPolicy(name, options, shadow, places);
}

function readShort(name: string, owner: string, value: Value): CheckedPolicy | undefined {
  const { plain } = value;
  if (typeof plain !== 'string' || !SHORT_POLICY.test(plain)) {
    const what = 'text such as 100/1m, or a map with limit and window';
    return value.report(`Expected ${owner} to be ${what}, got ${value.shown}`);
  }
  const [limit, window] = plain.split(/\/| per /);
  const places = placesIn({ get: () => value });
  return checkedPolicy(name, { limit: Number(limit), window }, false, places);
}

const placesIn = (fields: Pick<Fields, 'get'>): Places => ({
  limit: fields.get('limit'),
  window: fields.get('window'),
  algorithm: fields.get('algorithm'),
  buckets: fields.get('buckets'),
  burst: fields.get('burst'),
  costs: fields.get('costs'),
  onFailure: fields.get('onFailure'),
});
