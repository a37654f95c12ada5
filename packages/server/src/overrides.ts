/**
 * Overrides: keys that have a limit of their own, from the files or from the API. Asked at every
 * decision, so a policy without any costs nothing. What the API says of a key goes before what the
 * files say of it, and hides it only for as long as it is there.
 */
import { systemClock } from 'sluice';
import { expected, isInteger, keyText } from 'sluice/engine';
import { MAX_OVERRIDE, type OverrideConfig } from './config/model.ts';
import { type IndexedPattern, mostSpecific, PatternIndex } from './pattern-index.ts';
import { atOnce } from './slices.ts';

export interface Override extends OverrideConfig {
  /** The file's are replaced when it is read again, the API's stay. */
  readonly source: 'file' | 'api';
}

/** A change that the API made, here or in another process of the same service. */
export interface OverrideChange {
  readonly op: 'set' | 'delete';
  /** What is set now, or what was deleted. */
  readonly override: Override;
  /** Whether another process told us, so that nobody has to be told again. */
  readonly isRemote: boolean;
}

export type OverrideListener = (change: OverrideChange) => void;

export interface ChangeOptions {
  /** For changes that another process made and told us of. */
  readonly isRemote?: boolean;
}

export { MAX_OVERRIDE };
/** Of the API; those of the files are bounded by the files. */
export const MAX_OVERRIDES = 10_000;

/** The limits of their own that the keys of one policy have, from one source. */
interface OfPolicy {
  readonly exact: Map<string, Override>;
  /** By their text. */
  readonly patterns: Map<string, IndexedPattern<Override>>;
  readonly index: PatternIndex<Override>;
}

const newPolicy = (): OfPolicy => ({
  exact: new Map(),
  patterns: new Map(),
  index: new PatternIndex(mostSpecific),
});

class Layer {
  readonly policies = new Map<string, OfPolicy>();
  size = 0;

  find(policy: string, key: string): Override | undefined {
    const own = this.policies.get(policy);
    return key.includes('*') ? own?.patterns.get(key)?.value : own?.exact.get(key);
  }

  set(override: Override): void {
    const { policy, key } = override;
    this.delete(policy, key);
    const own = this.policies.get(policy) ?? newPolicy();
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
  readonly #api = new Layer();
  #file = new Layer();
  readonly #listeners: OverrideListener[] = [];

  /** The limit of its own that a key has now, if any. */
  limitFor(policy: string, key: string): number | undefined {
    if (this.#api.size + this.#file.size === 0) return undefined;
    return this.overrideFor(policy, key)?.limit;
  }

  /** A key's own goes before patterns; of those the most specific counts, and the API's first. */
  overrideFor(policy: string, key: string): Override | undefined {
    const api = this.#api.policies.get(policy);
    const file = this.#file.policies.get(policy);
    if (api === undefined && file === undefined) return undefined;
    const own = currentOf(api?.exact.get(key)) ?? currentOf(file?.exact.get(key));
    if (own !== undefined) return own;
    const ofApi = fitting(api, key);
    const ofFile = fitting(file, key);
    if (ofApi === undefined || ofFile === undefined) return (ofApi ?? ofFile)?.value;
    const isFileCloser = ofFile.literalLength > ofApi.literalLength;
    return (isFileCloser ? ofFile : ofApi).value;
  }

  /** The one that stands for a key or pattern, by its very text. */
  get(policy: string, key: string): Override | undefined {
    return currentOf(this.#api.find(policy, key)) ?? currentOf(this.#file.find(policy, key));
  }

  /** All that count now, by policy and key. */
  list(): readonly Override[] {
    const all = [...this.#api.all(), ...this.#file.all()];
    return all
      .filter((each) => this.get(each.policy, each.key) === each)
      .sort((a, b) => compare(a.policy, b.policy) || compare(a.key, b.key));
  }

  /** Has every change told that the API makes. */
  onChange(listener: OverrideListener): void {
    this.#listeners.push(listener);
  }

  /** Puts one in the place of what the API had there. The caller knows that the policy exists. */
  set(override: OverrideConfig, { isRemote = false }: ChangeOptions = {}): void {
    checkOverride(override);
    const { policy, key } = override;
    const isNew = this.#api.find(policy, key) === undefined;
    // What another process has set counts there, so it has to count here.
    if (isNew && !isRemote && this.#api.size >= MAX_OVERRIDES) {
      this.#dropExpired();
      if (this.#api.size >= MAX_OVERRIDES) {
        throw expected('ERR_INVALID_OPTION', `at most ${MAX_OVERRIDES} overrides`, MAX_OVERRIDES);
      }
    }
    const set: Override = { ...override, source: 'api' };
    this.#api.set(set);
    this.#tell({ op: 'set', override: set, isRemote });
  }

  /** Takes one of the API's away, and answers it. What the files say of the key counts again. */
  delete(
    policy: string,
    key: string,
    { isRemote = false }: ChangeOptions = {},
  ): Override | undefined {
    const deleted = this.#api.delete(policy, key);
    if (deleted !== undefined) this.#tell({ op: 'delete', override: deleted, isRemote });
    return currentOf(deleted);
  }

  /** Takes the files' anew; if any of them is wrong, none. */
  useFile(overrides: readonly OverrideConfig[]): void {
    atOnce(this.preparingFile(overrides))();
  }

  /** Prepares the files' in slices. Returns the function that takes them over. */
  *preparingFile(overrides: readonly OverrideConfig[]): Generator<void, () => void> {
    const layer = new Layer();
    for (const each of overrides) {
      checkOverride(each);
      layer.set({ ...each, source: 'file' });
      yield;
    }
    return () => {
      this.#file = layer;
    };
  }

  #tell(change: OverrideChange): void {
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

/** The override, if there is one and it has not expired. */
function currentOf(override: Override | undefined): Override | undefined {
  if (override?.expiresAtMs === undefined) return override;
  return override.expiresAtMs > systemClock.now() ? override : undefined;
}

const fitting = (own: OfPolicy | undefined, key: string): IndexedPattern<Override> | undefined =>
  own?.index.find(key, (override) => currentOf(override) !== undefined);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
