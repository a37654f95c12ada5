/** Parses policies. The library validates them; this module adds source positions. */
import { definePolicy, type Policy, SluiceError } from 'sluice';
import { expectationOf } from '../expectation.ts';
import { Fields, read } from './fields.ts';
import type { PolicyConfig } from './model.ts';
import { concurrencyFields, policyFields, policyName, shortPolicy } from './schema.ts';
import { labelIn, quoted, type Value } from './value.ts';

export type ConfiguredOptions = PolicyConfig['options'];

/** Returns the value in the file that sets an option of a policy. */
export type OptionLocator = (option: keyof ConfiguredOptions) => Value;

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
  const fields = fieldsOf(value);
  const { shadow = false, ...options } = fields.complete() ?? {};
  if (!fields.isValid) return undefined;
  return checkedPolicy({ name, options: options as ConfiguredOptions, shadow }, (option) =>
    fields.at(option as 'costs'),
  );
}

/** Returns the fields of a concurrency limit, or of a limit per window. */
function fieldsOf(value: Value) {
  const names = value.entries(() => '');
  const hasConcurrency = names.has('concurrency') || (names.has('lease') && !names.has('limit'));
  return hasConcurrency
    ? new Fields(value, concurrencyFields, value.label)
    : new Fields(value, policyFields, value.label);
}

export const isPolicyName = (name: string): boolean => policyName.safeParse(name).success;

/** The option that an error of the library refers to, by error code. */
const OPTION_OF_CODE: Readonly<Record<string, keyof ConfiguredOptions>> = {
  ERR_INVALID_LIMIT: 'limit',
  ERR_LIMIT_TOO_LARGE: 'limit',
  ERR_INVALID_WINDOW: 'window',
  ERR_INVALID_LEASE: 'lease',
  ERR_INVALID_BLOCK: 'block',
  ERR_INVALID_ALGORITHM: 'algorithm',
  ERR_INVALID_BUCKETS: 'buckets',
  ERR_INVALID_BURST: 'burst',
  ERR_INVALID_COSTS: 'costs',
  ERR_INVALID_OPTION: 'onFailure',
};

/** Returns the policy if the library accepts it. Otherwise reports every rejected option. */
export function checkedPolicy(
  config: PolicyConfig,
  locate: OptionLocator,
): CheckedPolicy | undefined {
  const { costs, ...options } = config.options;
  const withoutCosts = validatePolicy(config.name, options as ConfiguredOptions, locate);
  if (withoutCosts === undefined) return undefined;
  const { capacity } = withoutCosts.params!;
  const excessive = Object.entries(costs ?? {}).filter(([, cost]) => cost > capacity);
  if (excessive.length > 0) {
    const operations = locate('costs').entries(labelIn(locate('costs').label));
    for (const [operation] of excessive) {
      operations.get(operation)!.expected(`an integer from 1 to ${capacity}`);
    }
    return undefined;
  }
  return { config, policy: definePolicy(config.name, config.options) };
}

/**
 * Returns the policy if the library accepts its options. Otherwise reports the rejected option. If
 * the rejected option is `buckets` or `burst`, validates the other options without it, so that
 * their problems are reported as well.
 */
function validatePolicy(
  name: string,
  options: ConfiguredOptions,
  locate: OptionLocator,
): Policy | undefined {
  try {
    return definePolicy(name, options);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    const option = optionOf(error, options);
    const value = locate(option);
    const [, field = ''] = /^Expected `(\w+)` in /.exec(error.message) ?? [];
    (value.entries(labelIn(value.label)).get(field) ?? value).report(error.message);
    const { buckets, burst, ...needed } = options;
    if (option === 'buckets') {
      validatePolicy(name, (burst ? { ...needed, burst } : needed) as ConfiguredOptions, locate);
    }
    if (option === 'burst') validatePolicy(name, needed as ConfiguredOptions, locate);
    return undefined;
  }
}

/** Returns the option that an error of the library refers to. */
function optionOf(
  { code, message }: SluiceError,
  options: ConfiguredOptions,
): keyof ConfiguredOptions {
  if (message.startsWith('Expected burst')) return 'burst';
  const option = OPTION_OF_CODE[code];
  return option === 'limit' && options.concurrency !== undefined ? 'concurrency' : option;
}
