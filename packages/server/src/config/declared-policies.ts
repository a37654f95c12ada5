/**
 * All declared policies by name: the entries of `policies`, and one policy for each limit in an
 * Envoy domain.
 */
import { choiceText } from '../expectation.ts';
import { didYouMean } from './did-you-mean.ts';
import type { PolicyConfig } from './model.ts';
import type { CheckedPolicy } from './parse-policy.ts';
import type { Value } from './value.ts';

/**
 * Maximum number of "did you mean" hints. For each hint, an unknown name is compared with all
 * declared names.
 */
const MAX_SUGGESTIONS = 100;

export class DeclaredPolicies {
  /** Policies by name. The value is undefined if the declaration of the policy is invalid. */
  readonly #policies = new Map<string, CheckedPolicy | undefined>();
  #isComplete = true;
  #misses = 0;

  /** Stops `find` from reporting unknown names: a file that could not be read may declare them. */
  markIncomplete(): void {
    this.#isComplete = false;
  }

  /** Adds a policy. Returns false if the name is already declared. */
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

  /** Returns the policy with this name. If there is none, reports a problem at `value`. */
  find(name: string | undefined, value: Value): CheckedPolicy | undefined {
    if (name === undefined || this.#policies.has(name)) return this.#policies.get(name ?? '');
    if (!this.#isComplete) return undefined;
    const names = [...this.#policies.keys()];
    const hint = ++this.#misses > MAX_SUGGESTIONS ? '' : didYouMean(name, names);
    const choices = names.length === 0 ? 'of which there are none' : choiceText(names);
    return void value.expected(`a policy, ${choices}`, hint);
  }
}
