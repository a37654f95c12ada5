/**
 * Overrides: keys that have a limit of their own, from the file or from the API. Asked at every
 * decision, so a policy without any costs nothing.
 */
import { systemClock } from 'sluice';
import { expected, isInteger, keyText } from 'sluice/engine';
import type { OverrideConfig } from './config/model.ts';

export interface Override extends OverrideConfig {
  /** The file's are replaced when it is read again, the API's stay. */
  readonly source: 'file' | 'api';
}

/** Entries of the stores are 32 bits wide unless the policy's own limit is wider. */
export const LARGEST_OVERRIDE = 2 ** 31 - 1;
export const MOST_OVERRIDES = 10_000;

interface OfPolicy {
  readonly exact: Map<string, Override>;
  /** The most specific first. */
  readonly patterns: Override[];
}

export class Overrides {
  #policies = new Map<string, OfPolicy>();
  #size = 0;

  /** The limit of its own that a key has now, if any. */
  limitFor(policy: string, key: string): number | undefined {
    const own = this.#policies.get(policy);
    if (own === undefined) return undefined;
    const found = own.exact.get(key);
    if (found !== undefined && isCurrent(found)) return found.limit;
    return own.patterns.find((each) => isCurrent(each) && fits(each.key, key))?.limit;
  }

  /** All that count now, by policy and key. */
  list(): readonly Override[] {
    const all = [...this.#policies.values()].flatMap(({ exact, patterns }) => [
      ...exact.values(),
      ...patterns,
    ]);
    return all
      .filter(isCurrent)
      .sort((a, b) => compare(a.policy, b.policy) || compare(a.key, b.key));
  }

  /** Puts one in the place of what stood there. The caller has checked that the policy exists. */
  set(override: Override): void {
    checkOverride(override);
    const { policy, key } = override;
    this.delete(policy, key);
    if (this.#size >= MOST_OVERRIDES) this.#dropExpired();
    if (this.#size >= MOST_OVERRIDES) {
      throw expected('ERR_INVALID_OPTION', `at most ${MOST_OVERRIDES} overrides`, this.#size + 1);
    }
    const own: OfPolicy = this.#policies.get(policy) ?? { exact: new Map(), patterns: [] };
    this.#policies.set(policy, own);
    this.#size++;
    if (!key.includes('*')) own.exact.set(key, override);
    else {
      own.patterns.push(override);
      own.patterns.sort((a, b) => literalLength(b.key) - literalLength(a.key));
    }
  }

  /** Whether there was one. */
  delete(policy: string, key: string): boolean {
    const own = this.#policies.get(policy);
    if (own === undefined) return false;
    const at = own.patterns.findIndex((each) => each.key === key);
    if (at >= 0) own.patterns.splice(at, 1);
    const had = own.exact.delete(key) || at >= 0;
    if (had) this.#size--;
    if (own.exact.size + own.patterns.length === 0) this.#policies.delete(policy);
    return had;
  }

  /** Takes the file's anew. Those of the API stay, and go before the file's for the same key. */
  useFile(overrides: readonly OverrideConfig[]): void {
    const kept = this.list().filter(({ source }) => source === 'api');
    this.#policies = new Map();
    this.#size = 0;
    for (const each of overrides) this.set({ ...each, source: 'file' });
    for (const each of kept) this.set(each);
  }

  #dropExpired(): void {
    const kept = this.list();
    this.#policies = new Map();
    this.#size = 0;
    for (const each of kept) this.set(each);
  }
}

function checkOverride({ key, limit, expiresAtMs }: Override): void {
  keyText(key);
  if (!isInteger(limit, 1) || limit > LARGEST_OVERRIDE) {
    const what = `the limit of an override to be an integer from 1 to ${LARGEST_OVERRIDE}`;
    throw expected('ERR_INVALID_LIMIT', what, limit);
  }
  if (expiresAtMs !== undefined && !isInteger(expiresAtMs, 0)) {
    throw expected('ERR_INVALID_OPTION', 'the expiry to be a time in ms', expiresAtMs);
  }
}

const isCurrent = ({ expiresAtMs }: Override): boolean =>
  expiresAtMs === undefined || expiresAtMs > systemClock.now();

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const literalLength = (pattern: string): number => pattern.replaceAll('*', '').length;

/**
 * Whether a text is what a pattern describes, where `*` stands for any characters. Each part between
 * stars is taken where it comes first, so that no pattern makes it slow.
 */
export function fits(pattern: string, text: string): boolean {
  const parts = pattern.split('*');
  const first = parts[0];
  const last = parts[parts.length - 1];
  if (parts.length === 1) return pattern === text;
  if (!text.startsWith(first) || text.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
