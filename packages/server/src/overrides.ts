/**
 * Overrides: limits for single keys or for patterns of keys, from the files or from the API. For
 * the same key, an override of the API takes precedence over an override of the files, until it is
 * deleted or expires. Every decision looks up the override for its key. If the policy has no
 * overrides, the lookup only reads two maps.
 */
import { systemClock } from 'sluice';
import { expected, isInteger, keyText } from 'sluice/engine';
import { MAX_OVERRIDE, type OverrideConfig } from './config/model.ts';
import { type IndexedPattern, mostSpecific, PatternIndex } from './pattern-index.ts';
import { runToEnd } from './slices.ts';

export interface Override extends OverrideConfig {
  /** A reload replaces overrides of the files, and keeps overrides of the API. */
  readonly source: 'file' | 'api';
}

/** A change through the API, in this process or in another worker. */
export interface OverrideChange {
  readonly op: 'set' | 'delete';
  /** The override that was set or deleted. */
  readonly override: Override;
  /**
   * Whether the change came from another process. Such a change is not sent to other processes
   * again.
   */
  readonly isRemote: boolean;
}

export type OverrideListener = (change: OverrideChange) => void;

export interface ChangeOptions {
  /** Whether the change came from another process. Default false. */
  readonly isRemote?: boolean;
}

export { MAX_OVERRIDE };
/** Maximum number of overrides of the API. Overrides of the files are not counted. */
export const MAX_OVERRIDES = 10_000;

/** The overrides of one policy from one source. */
interface PolicyOverrides {
  readonly exact: Map<string, Override>;
  /** Overrides whose key is a pattern with `*`, by pattern. */
  readonly patterns: Map<string, IndexedPattern<Override>>;
  readonly index: PatternIndex<Override>;
}

const noOverrides = (): PolicyOverrides => ({
  exact: new Map(),
  patterns: new Map(),
  index: new PatternIndex(mostSpecific),
});

/** All overrides from one source: the files or the API. */
class OverrideLayer {
  readonly policies = new Map<string, PolicyOverrides>();
  size = 0;

  find(policy: string, key: string): Override | undefined {
    const own = this.policies.get(policy);
    return key.includes('*') ? own?.patterns.get(key)?.value : own?.exact.get(key);
  }

  set(override: Override): void {
    const { policy, key } = override;
    this.delete(policy, key);
    const own = this.policies.get(policy) ?? noOverrides();
    this.policies.set(policy, own);
    this.size++;
    if (key.includes('*')) own.patterns.set(key, own.index.add(key, override));
    else own.exact.set(key, override);
  }

  delete(policy: string, key: string): Override | undefined {
    const own = this.policies.get(policy);
    const found = this.find(policy, key);
    if (own === undefined || found === undefined) return undefined;
    const pattern = own.patterns.get(key);
    if (pattern === undefined) own.exact.delete(key);
    else {
      own.index.delete(pattern);
      own.patterns.delete(key);
    }
    this.size--;
    if (own.exact.size + own.patterns.size === 0) this.policies.delete(policy);
    return found;
  }

  all(): readonly Override[] {
    return [...this.policies.values()].flatMap(({ exact, patterns }) => [
      ...exact.values(),
      ...[...patterns.values()].map(({ value }) => value),
    ]);
  }
}

export class Overrides {
  readonly #api = new OverrideLayer();
  #file = new OverrideLayer();
  readonly #listeners: OverrideListener[] = [];

  /** Returns the limit of the override for a key; undefined if there is none. */
  limitFor(policy: string, key: string): number | undefined {
    if (this.#api.size + this.#file.size === 0) return undefined;
    return this.overrideFor(policy, key)?.limit;
  }

  /**
   * Returns the override that applies to a key. An override of exactly this key takes precedence
   * over patterns. Among patterns, the most specific one applies. If a pattern of the API and a
   * pattern of the files are equally specific, the one of the API applies.
   */
  overrideFor(policy: string, key: string): Override | undefined {
    const api = this.#api.policies.get(policy);
    const file = this.#file.policies.get(policy);
    if (api === undefined && file === undefined) return undefined;
    const own = currentOf(api?.exact.get(key)) ?? currentOf(file?.exact.get(key));
    if (own !== undefined) return own;
    const ofApi = mostSpecificFor(api, key);
    const ofFile = mostSpecificFor(file, key);
    if (ofApi === undefined || ofFile === undefined) return (ofApi ?? ofFile)?.value;
    const isFileMoreSpecific = ofFile.literalLength > ofApi.literalLength;
    return (isFileMoreSpecific ? ofFile : ofApi).value;
  }

  /** Returns the override that is defined for exactly this key or pattern. */
  get(policy: string, key: string): Override | undefined {
    return currentOf(this.#api.find(policy, key)) ?? currentOf(this.#file.find(policy, key));
  }

  /** Returns all overrides in effect, sorted by policy and key. */
  list(): readonly Override[] {
    const all = [...this.#api.all(), ...this.#file.all()];
    return all
      .filter((each) => this.get(each.policy, each.key) === each)
      .sort((a, b) => compare(a.policy, b.policy) || compare(a.key, b.key));
  }

  /** Adds a listener for changes through the API. */
  onChange(listener: OverrideListener): void {
    this.#listeners.push(listener);
  }

  /** Sets or replaces an override of the API. The caller has checked that the policy exists. */
  set(override: OverrideConfig, { isRemote = false }: ChangeOptions = {}): void {
    checkOverride(override);
    const { policy, key } = override;
    const isNew = this.#api.find(policy, key) === undefined;
    // A remote override is accepted beyond the maximum: other processes have already applied it.
    if (isNew && !isRemote && this.#api.size >= MAX_OVERRIDES) {
      this.#dropExpired();
      if (this.#api.size >= MAX_OVERRIDES) {
        throw expected('ERR_INVALID_OPTION', `at most ${MAX_OVERRIDES} overrides`, MAX_OVERRIDES);
      }
    }
    const set: Override = { ...override, source: 'api' };
    this.#api.set(set);
    this.#notify({ op: 'set', override: set, isRemote });
  }

  /**
   * Deletes an override of the API. Returns the override, or undefined if there was none or it had
   * expired. If the files have an override for the same key, the override of the files is in effect
   * again.
   */
  delete(
    policy: string,
    key: string,
    { isRemote = false }: ChangeOptions = {},
  ): Override | undefined {
    const deleted = this.#api.delete(policy, key);
    if (deleted !== undefined) this.#notify({ op: 'delete', override: deleted, isRemote });
    return currentOf(deleted);
  }

  /** Replaces the overrides of the files. If an override is invalid, throws and changes nothing. */
  useFile(overrides: readonly OverrideConfig[]): void {
    runToEnd(this.preparingFile(overrides))();
  }

  /** Prepares the overrides of the files in slices. Returns the function that applies them. */
  *preparingFile(overrides: readonly OverrideConfig[]): Generator<void, () => void> {
    const layer = new OverrideLayer();
    for (const each of overrides) {
      checkOverride(each);
      layer.set({ ...each, source: 'file' });
      yield;
    }
    return () => {
      this.#file = layer;
    };
  }

  #notify(change: OverrideChange): void {
    for (const listener of this.#listeners) listener(change);
  }

  #dropExpired(): void {
    for (const each of this.#api.all()) {
      if (currentOf(each) === undefined) this.#api.delete(each.policy, each.key);
    }
  }
}

function checkOverride({ key, limit, expiresAtMs }: OverrideConfig): void {
  keyText(key);
  if (!isInteger(limit, 1) || limit > MAX_OVERRIDE) {
    const what = `the limit of an override to be an integer from 1 to ${MAX_OVERRIDE}`;
    throw expected('ERR_INVALID_LIMIT', what, limit);
  }
  if (expiresAtMs !== undefined && !isInteger(expiresAtMs, 0)) {
    throw expected('ERR_INVALID_OPTION', 'the expiry to be a time in ms', expiresAtMs);
  }
}

/** Returns the override unless it has expired. */
function currentOf(override: Override | undefined): Override | undefined {
  if (override?.expiresAtMs === undefined) return override;
  return override.expiresAtMs > systemClock.now() ? override : undefined;
}

const mostSpecificFor = (
  own: PolicyOverrides | undefined,
  key: string,
): IndexedPattern<Override> | undefined =>
  own?.index.find(key, (override) => currentOf(override) !== undefined);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
