/** The policies that are served, by name, with the limits of their own that keys have. */
import { definePolicy, type Policy, type Terms } from 'sluice';
import { expected, PolicyBook } from 'sluice/engine';
import type { PolicyConfig } from './config/model.ts';
import type { Overrides } from './overrides.ts';

/** Names that begin like this are the service's own. */
export const OWN_NAMES = 'sluice.';

export interface ServedPolicy {
  readonly config: PolicyConfig;
  readonly policy: Policy;
}

/** Asks the engine's own book about everything but what a policy's name stands for. */
export class ServedPolicies extends PolicyBook {
  readonly #served = new Map<string, ServedPolicy>();

  constructor(configs: readonly PolicyConfig[], overrides: Overrides) {
    super({ [`${OWN_NAMES}none`]: '1/1s' });
    for (const config of configs) {
      this.#served.set(config.name, { config, policy: withOverrides(config, overrides) });
    }
  }

  override policy(name: string): Policy {
    const served = this.#served.get(name);
    if (served !== undefined) return served.policy;
    const names = [...this.#served.keys()].join(' ') || 'none';
    throw expected('ERR_UNKNOWN_POLICY', `a policy, one of: ${names}`, name);
  }

  get(name: string): ServedPolicy | undefined {
    return this.#served.get(name);
  }

  list(): readonly ServedPolicy[] {
    return [...this.#served.values()];
  }

  isShadow(name: string): boolean {
    return this.#served.get(name)?.config.shadow === true;
  }
}

function withOverrides({ name, options }: PolicyConfig, overrides: Overrides): Policy {
  const policy = definePolicy(name, options);
  const base = policy.terms!;
  const hasBurst = options.burst !== undefined;
  const termsFor = (key: string): Terms => {
    const limit = overrides.limitFor(name, key);
    if (limit === undefined) return base;
    return { ...base, limit, capacity: hasBurst ? base.capacity : limit };
  };
  return { ...policy, termsFor };
}
