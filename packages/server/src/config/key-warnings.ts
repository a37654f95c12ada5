/**
 * Finds keys that clients can choose, for warnings. A client that sends a new API key with each
 * request gets a new counter each time, unless a limit by address also applies to its requests.
 */
import type { KeySource, RequestMatch, RuleConfig, RuleLimit } from './model.ts';

const CLIENT_CHOSEN: ReadonlySet<KeySource['from']> = new Set(['header', 'cookie', 'query']);

const sourcesOf = ({ key }: RuleLimit): readonly KeySource[] =>
  key.flatMap(({ sources }) => sources);

const isClientChosen = (limit: RuleLimit): boolean =>
  sourcesOf(limit).some(({ from }) => CLIENT_CHOSEN.has(from));

const isByAddress = (limit: RuleLimit): boolean =>
  !isClientChosen(limit) && sourcesOf(limit).some(({ from }) => from === 'address');

const hasAddressLimit = ({ limits }: RuleConfig): boolean => limits.some(isByAddress);

const isForAll = ({ match }: RuleConfig): boolean =>
  match.kind === 'request' && FIELDS.every((field) => match[field] === undefined);

const FIELDS = ['path', 'method', 'host', 'headers'] as const satisfies (keyof RequestMatch)[];

/**
 * Returns the limits with client-chosen keys for which no limit by address applies to the same
 * requests. The limit by address can be in the same rule, or in a rule for all requests that also
 * applies: an earlier rule with `continue`, or a later rule if this rule has `continue`.
 */
export function unguardedLimits(rules: readonly RuleConfig[]): readonly RuleLimit[] {
  const requests = rules.filter(({ match }) => match.kind === 'request');
  const guards = requests.map((rule) => isForAll(rule) && hasAddressLimit(rule));
  const lastGuard = guards.lastIndexOf(true);
  let isGuarded = false;
  return requests.flatMap((rule, at) => {
    const hasGuard = isGuarded || hasAddressLimit(rule) || (rule.goOn && at < lastGuard);
    isGuarded ||= guards[at] && rule.goOn;
    return hasGuard ? [] : rule.limits.filter(isClientChosen);
  });
}

const ADDRESS_LIKE = /^[\da-f]*\\?[:.][\da-f:.\\]*(?:\/\d+)?\*?$/i;

/** Whether the key of an override is an address without the prefix `address:`. */
export const isBareAddress = (key: string): boolean => ADDRESS_LIKE.test(key);

/** Returns the names of the policies that a rule combines with a key by client address. */
export function policiesByAddress(rules: readonly RuleConfig[]): ReadonlySet<string> {
  const limits = rules.flatMap((rule) => rule.limits);
  const byAddress = limits.filter((limit) =>
    sourcesOf(limit).some(({ from }) => from === 'address'),
  );
  return new Set(byAddress.map(({ policy }) => policy));
}
