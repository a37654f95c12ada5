/** All policies by name: those of `policies`, and one for each limit of a domain. */

import { didYouMean } from './did-you-mean.ts';
import type { PolicyConfig } from './model.ts';
import type { CheckedPolicy } from './parse-policy.ts';
import { choice, type Value } from './value.ts';

/** Comparing many names with many takes long, and nobody reads that much. */
const MAX_HINTS = 100;

export class PolicyRegister {
  /** Undefined for a policy that is there, but wrong. */
  readonly #policies = new Map<string, CheckedPolicy | undefined>();
  #isWhole = true;
  #misses = 0;

  /** Tells that a file could not be read, so that not all names are known. */
  incomplete(): void {
    this.#isWhole = false;
  }

  /** Whether the name was free. */
  add(name: string, policy: CheckedPolicy | undefined): boolean {
    if (this.#policies.has(name)) return false;
    this.#policies.set(name, policy);
    return true;
  }

  get isEmpty(): boolean {
    return this.#policies.size === 0;
  }

  get configs(): readonly PolicyConfig[] {
    return [...this.#policies.values()].flatMap((each) => (each === undefined ? [] : each.config));
  }

  /** The policy that a value names; says so if there is none. */
  find(value: Value): CheckedPolicy | undefined {
    const name = value.text('the name of a policy');
    if (name === undefined || this.#policies.has(name)) return this.#policies.get(name ?? '');
    if (!this.#isWhole) return undefined;
    const names = [...this.#policies.keys()];
    const hint = ++this.#misses > MAX_HINTS ? '' : didYouMean(name, names);
    const which = names.length === 0 ? 'of which there are none' : choice(names);
    return value.expected(`a policy, ${which}`, hint);
  }
}
