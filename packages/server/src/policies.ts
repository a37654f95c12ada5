/** The policies that are served, by name, with the limits of their own that keys have. */
import { definePolicy, type Key, type Limit, type LimitParams, type Policy } from 'sluice';
import { type CostFields, expected, PolicyRegistry } from 'sluice/engine';
import type { PolicyConfig } from './config/model.ts';
import type { Overrides } from './overrides.ts';
import { ShadowOverrides } from './shadow-overrides.ts';
import { atOnce } from './slices.ts';

/** Names that begin like this are the service's own. */
export const OWN_NAMES = 'sluice.';

export interface ServedPolicy {
  readonly config: PolicyConfig;
  readonly policy: Policy;
}

/** Asks the engine's own book about everything but what a policy's name stands for. */
export class ServedPolicies extends PolicyRegistry {
  readonly #served = new Map<string, ServedPolicy>();
  readonly #shadowOverrides: ShadowOverrides;
  readonly #inShadow = new Set<string>();
  /** Whether any of them is in shadow: mostly none is. Asked at every decision. */
  hasShadow = false;

  constructor(
    configs: readonly PolicyConfig[],
    overrides: Overrides,
    shadowOverrides = new ShadowOverrides(),
  ) {
    super({ [`${OWN_NAMES}none`]: '1/1s' });
    this.#shadowOverrides = shadowOverrides;
    atOnce(this.adding(configs, overrides));
  }

  /** Adds policies in slices. */
  *adding(configs: readonly PolicyConfig[], overrides: Overrides): Generator<void, void> {
    for (const config of configs) {
      this.#served.set(config.name, { config, policy: withOverrides(config, overrides) });
      this.applyShadowOverride(config.name);
      yield;
    }
  }

  /** Goes by what the API says of a policy now, or else by what the files say. */
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

  override limit(name: string, key: Key, asked: CostFields | undefined, least: 0 | 1): Limit {
    const limit = super.limit(name, key, asked, least);
    checkCharacters(limit.key);
    return limit;
  }

  get(name: string): ServedPolicy | undefined {
    return this.#served.get(name);
  }

  list(): readonly ServedPolicy[] {
    return [...this.#served.values()];
  }

  /** As it counts now, whoever said so. */
  isShadow(name: string): boolean {
    return this.#inShadow.has(name);
  }
}

/**
 * Half of a surrogate pair is no character. Redis would keep all of them as one and the same, so
 * different keys would share a counter there, and nowhere else.
 */
type Unicode = { isWellFormed(): boolean };

/** Refuses keys that are not text in every store. */
export function checkCharacters(key: string): void {
  if ((key as unknown as Unicode).isWellFormed()) return;
  throw expected('ERR_INVALID_KEY', 'a key without halves of surrogate pairs', key);
}

/** A file of Envoy's may have thousands, which nobody wants to be told for each misspelt name. */
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
    // The window may have grown since it was set.
    const limit = Math.min(own, Math.floor(Number.MAX_SAFE_INTEGER / base.windowMs));
    return { ...base, limit, capacity: hasBurst ? base.capacity : limit };
  };
  return { ...policy, paramsFor };
}
