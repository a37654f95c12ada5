/**
 * Warnings about keys that clients choose. A client that sends a new API key with each request has
 * a new counter each time, unless a limit by address counts it as well.
 */
import type { KeySource, RequestMatch, RuleConfig, RuleLimit } from './model.ts';

const CHOSEN: ReadonlySet<KeySource['from']> = new Set(['header', 'cookie', 'query']);

const sourcesOf = ({ key }: RuleLimit): readonly KeySource[] =>
  key.flatMap(({ sources }) => sources);

const isChosen = (limit: RuleLimit): boolean =>
  sourcesOf(limit).some(({ from }) => CHOSEN.has(from));

const isByAddress = (limit: RuleLimit): boolean =>
  !isChosen(limit) && sourcesOf(limit).some(({ from }) => from === 'address');

const hasAddressLimit = ({ limits }: RuleConfig): boolean => limits.some(isByAddress);

const isForAll = ({ match }: RuleConfig): boolean =>
  match.kind === 'request' && FIELDS.every((field) => match[field] === undefined);

const FIELDS = ['path', 'method', 'host', 'headers'] as const satisfies (keyof RequestMatch)[];

/**
 * Returns the limits with keys that clients choose, where no limit by address applies to the same
 * requests: in the rule itself, or in a rule for all requests that `continue` leads from or to.
 */
export function unguardedLimits(rules: readonly RuleConfig[]): readonly RuleLimit[] {
  const requests = rules.filter(({ match }) => match.kind === 'request');
  const guards = requests.map((rule) => isForAll(rule) && hasAddressLimit(rule));
  const lastGuard = guards.lastIndexOf(true);
  let isGuarded = false;
  return requests.flatMap((rule, at) => {
    const isFine = isGuarded || hasAddressLimit(rule) || (rule.goOn && at < lastGuard);
    isGuarded ||= guards[at] && rule.goOn;
    return isFine ? [] : rule.limits.filter(isChosen);
  });
}

const ADDRESS_LIKE = /^[\da-f]*\\?[:.][\da-f:.\\]*(?:\/\d+)?\*?$/i;

/** Whether an override names an address without its source. */
export const isBareAddress = (key: string): boolean => ADDRESS_LIKE.test(key);

/** Returns the names of policies under which a rule counts by address. */
export function policiesByAddress(rules: readonly RuleConfig[]): ReadonlySet<string> {
  const limits = rules.flatMap((rule) => rule.limits);
  const byAddress = limits.filter((limit) =>
    sourcesOf(limit).some(({ from }) => from === 'address'),
  );
  return new Set(byAddress.map(({ policy }) => policy));
}
