/** The policies in use, by name, with their overrides. */
import { definePolicy, type Key, type Limit, type LimitParams, type Policy } from 'sluice';
import { type CostFields, expected, PolicyRegistry } from 'sluice/engine';
import type { PolicyConfig } from './config/model.ts';
import type { Overrides } from './overrides.ts';
import { ShadowOverrides } from './shadow-overrides.ts';
import { runToEnd } from './slices.ts';

/** Prefix of names that are reserved for the service. */
export const RESERVED_PREFIX = 'sluice.';

export interface ServedPolicy {
  readonly config: PolicyConfig;
  readonly policy: Policy;
}

/**
 * Resolves names to policies of the configuration. The base class of the library validates keys and
 * costs.
 */
export class ServedPolicies extends PolicyRegistry {
  readonly #served = new Map<string, ServedPolicy>();
  readonly #shadowOverrides: ShadowOverrides;
  readonly #inShadow = new Set<string>();
  /** Whether any policy is in shadow mode. Read at every decision. */
  hasShadow = false;

  constructor(
    configs: readonly PolicyConfig[],
    overrides: Overrides,
    shadowOverrides = new ShadowOverrides(),
  ) {
    super({ [`${RESERVED_PREFIX}none`]: '1/1s' });
    this.#shadowOverrides = shadowOverrides;
    runToEnd(this.adding(configs, overrides));
  }

  /** Adds policies in slices: yields after each policy. */
  *adding(configs: readonly PolicyConfig[], overrides: Overrides): Generator<void, void> {
    for (const config of configs) {
      this.#served.set(config.name, { config, policy: withOverrides(config, overrides) });
      this.applyShadowOverride(config.name);
      yield;
    }
  }

  /**
   * Updates whether a policy is in shadow mode. The shadow override set through the API applies or,
   * if there is none, the setting in the files.
   */
  applyShadowOverride(name: string): void {
    const served = this.#served.get(name);
    if (served === undefined) return;
    if (this.#shadowOverrides.get(name) ?? served.config.shadow) this.#inShadow.add(name);
    else this.#inShadow.delete(name);
    this.hasShadow = this.#inShadow.size > 0;
  }

  override policy(name: string): Policy {
    const served = this.#served.get(name);
    if (served !== undefined) return served.policy;
    const names = shownNames([...this.#served.keys()]);
    throw expected('ERR_UNKNOWN_POLICY', `a policy, one of: ${names}`, name);
  }

  override limit(name: string, key: Key, fields: CostFields | undefined, minCost: 0 | 1): Limit {
    const limit = super.limit(name, key, fields, minCost);
    checkCharacters(limit.key);
    return limit;
  }

  get(name: string): ServedPolicy | undefined {
    return this.#served.get(name);
  }

  list(): readonly ServedPolicy[] {
    return [...this.#served.values()];
  }

  /** Whether a policy is in shadow mode, by the API or by the files. */
  isShadow(name: string): boolean {
    return this.#inShadow.has(name);
  }
}

/**
 * Throws if a key has a lone surrogate. Encoded as UTF-8 for Redis, all lone surrogates become the
 * same character, so different keys would share a counter there, but not in memory.
 */
export function checkCharacters(key: string): void {
  if ((key as unknown as { isWellFormed(): boolean }).isWellFormed()) return;
  throw expected('ERR_INVALID_KEY', 'a key without lone surrogates', key);
}

/** Maximum number of names in an error message. Configurations can have thousands of policies. */
const MAX_SHOWN = 20;

function shownNames(names: readonly string[]): string {
  const more = names.length > MAX_SHOWN ? ` and ${names.length - MAX_SHOWN} more` : '';
  return `${names.slice(0, MAX_SHOWN).join(' ') || 'none'}${more}`;
}

function withOverrides({ name, options }: PolicyConfig, overrides: Overrides): Policy {
  const policy = definePolicy(name, options);
  const base = policy.params!;
  const hasBurst = options.burst !== undefined;
  const paramsFor = (key: string): LimitParams => {
    const own = overrides.limitFor(name, key);
    if (own === undefined) return base;
    // Keep limit x window a safe integer. When the override was set, the policy may have had a
    // shorter window.
    const limit = Math.min(own, Math.floor(Number.MAX_SAFE_INTEGER / base.windowMs));
    return { ...base, limit, capacity: hasBurst ? base.capacity : limit };
  };
  return { ...policy, paramsFor };
}
