/** The numbers by which a worker refers to policies on a channel, see `operations.ts`. */
import type { Policy } from 'sluice';
import { KIND, MAX_CHANNEL_POLICIES } from './operations.ts';

/** Numbers of the policies defined on a channel. Policies with equal definitions share a number. */
export class PolicyNumbers {
  #byPolicy = new WeakMap<Policy, number>();
  #byText = new Map<string, number>();

  of(policy: Policy): number {
    return this.#byPolicy.get(policy)!;
  }

  /** Starts again from number 0 if `policies` more definitions could exceed the maximum. */
  makeRoom(policies: number): void {
    if (this.#byText.size + policies <= MAX_CHANNEL_POLICIES) return;
    this.#byPolicy = new WeakMap();
    this.#byText = new Map();
  }

  /**
   * Appends a definition to `values`, the line that is being built, unless the policy has a number.
   */
  define(policy: Policy, values: unknown[]): void {
    if (this.#byPolicy.has(policy)) return;
    const { name, algorithm, windowMs, bucketMs, params, block } = policy;
    const definition = [name, algorithm, windowMs, bucketMs, params?.limit ?? 0];
    if (block) definition.push(block.forMs, block.factor, block.maxMs, block.forgetMs);
    const text = JSON.stringify(definition);
    let number = this.#byText.get(text);
    if (number === undefined) {
      number = this.#byText.size;
      this.#byText.set(text, number);
      values.push(block ? KIND.defineBlock : KIND.define, number, ...definition);
    }
    this.#byPolicy.set(policy, number);
  }
}
