/** All declared policies by name: those of `policies`, and one for each limit of a domain. */
import { choiceText } from '../expectation.ts';
import { didYouMean } from './did-you-mean.ts';
import type { PolicyConfig } from './model.ts';
import type { CheckedPolicy } from './parse-policy.ts';
import type { Value } from './value.ts';

/** Suggestions compare the name with all others, so their number is bounded. */
const MAX_SUGGESTIONS = 100;

export class DeclaredPolicies {
  /** Undefined for a policy that is declared, but invalid. */
  readonly #policies = new Map<string, CheckedPolicy | undefined>();
  #isComplete = true;
  #misses = 0;

  /** Stops reports of unknown names: a file that could not be read may declare them. */
  markIncomplete(): void {
    this.#isComplete = false;
  }

  /** Returns whether the name was free. */
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

  /** Returns the policy of a name; reports the name at `value` if no policy has it. */
  find(name: string | undefined, value: Value): CheckedPolicy | undefined {
    if (name === undefined || this.#policies.has(name)) return this.#policies.get(name ?? '');
    if (!this.#isComplete) return undefined;
    const names = [...this.#policies.keys()];
    const hint = ++this.#misses > MAX_SUGGESTIONS ? '' : didYouMean(name, names);
    const choices = names.length === 0 ? 'of which there are none' : choiceText(names);
    return void value.expected(`a policy, ${choices}`, hint);
  }
}
