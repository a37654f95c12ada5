/** Which limit a descriptor of Envoy's has: rules first, then the trees of domains. */
import type { DomainConfig, RuleConfig } from '../config/model.ts';
import type { LimitRequest } from '../desk.ts';

/** The entries of a descriptor, in order. */
export type Entries = readonly { readonly key: string; readonly value: string }[];

export type DescriptorLimits =
  | {
      readonly kind: 'limited';
      /** Without a cost: that is the request's. */
      readonly limits: readonly LimitRequest[];
      readonly name: string | undefined;
      readonly replaces: readonly string[];
    }
  | {
      readonly kind: 'unlimited';
      readonly name: string | undefined;
      readonly replaces: readonly string[];
    };

export class DescriptorRules {
  constructor(
    readonly rules: readonly RuleConfig[],
    readonly domains: readonly DomainConfig[],
  ) {}

  /** Whether anything is said about a domain. */
  hasDomain(_domain: string): boolean {
    return false;
  }

  /** What a descriptor is held to; undefined if nothing is said about it. */
  find(_domain: string, _entries: Entries): DescriptorLimits | undefined {
    return undefined;
  }
}
