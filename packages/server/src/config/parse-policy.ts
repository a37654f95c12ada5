/** Parses policies. The library validates them; this module adds source positions. */
import { definePolicy, type Policy, type PolicyOptions, SluiceError } from 'sluice';
import { expectationOf } from '../expectation.ts';
import { Fields, read } from './fields.ts';
import type { PolicyConfig } from './model.ts';
import { policyFields, policyName, shortPolicy } from './schema.ts';
import { labelIn, quoted, type Value } from './value.ts';

export type FixedOptions = PolicyConfig['options'];

/** Returns the value in the file that sets an option of a policy. */
export type Places = (option: keyof PolicyOptions) => Value;

export interface CheckedPolicy {
  readonly config: PolicyConfig;
  readonly policy: Policy;
}

/** Parses an entry of `policies`: `100/1m`, or a map. */
export function parsePolicy(name: string, value: Value): CheckedPolicy | undefined {
  if (!isPolicyName(name)) {
    const what = `the name of a policy to be ${expectationOf(policyName).expected}`;
    return void value.reportKey(`Expected ${what}, got ${quoted(name)}`);
  }
  if (!value.isMap) {
    const options = read(value, shortPolicy);
    return options && checkedPolicy({ name, options, shadow: false }, () => value);
  }
  const fields = new Fields(value, policyFields, value.label);
  const { shadow = false, ...options } = fields.complete() ?? {};
  if (!fields.isValid) return undefined;
  return checkedPolicy({ name, options: options as FixedOptions, shadow }, (option) =>
    fields.at(option),
  );
}

export const isPolicyName = (name: string): boolean => policyName.safeParse(name).success;

/** The option that an error code of the library is about. */
const OPTION_OF_CODE: Readonly<Record<string, keyof PolicyOptions>> = {
  ERR_INVALID_LIMIT: 'limit',
  ERR_LIMIT_TOO_LARGE: 'limit',
  ERR_INVALID_WINDOW: 'window',
  ERR_INVALID_ALGORITHM: 'algorithm',
  ERR_INVALID_BUCKETS: 'buckets',
  ERR_INVALID_BURST: 'burst',
  ERR_INVALID_COSTS: 'costs',
  ERR_INVALID_OPTION: 'onFailure',
};

/** Has the library validate a policy; reports all that it rejects. */
export function checkedPolicy(config: PolicyConfig, places: Places): CheckedPolicy | undefined {
  const { costs, ...options } = config.options;
  const withoutCosts = validatePolicy(config.name, options, places);
  if (withoutCosts === undefined) return undefined;
  const { capacity } = withoutCosts.params!;
  const excessive = Object.entries(costs ?? {}).filter(([, cost]) => cost > capacity);
  if (excessive.length > 0) {
    const operations = places('costs').entries(labelIn(places('costs').label));
    for (const [operation] of excessive) {
      operations.get(operation)!.expected(`an integer from 1 to ${capacity}`);
    }
    return undefined;
  }
  return { config, policy: definePolicy(config.name, config.options) };
}

/** An option that is rejected is left out, and the others are validated without it. */
function validatePolicy(name: string, options: FixedOptions, places: Places): Policy | undefined {
  try {
    return definePolicy(name, options);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const isBurst = error.message.startsWith('Expected burst');
    const option = isBurst ? 'burst' : OPTION_OF_CODE[error.code];
    places(option).report(error.message);
    const { buckets, burst, ...needed } = options;
    if (option === 'buckets') validatePolicy(name, burst ? { ...needed, burst } : needed, places);
    if (option === 'burst') validatePolicy(name, needed, places);
    return undefined;
  }
}
