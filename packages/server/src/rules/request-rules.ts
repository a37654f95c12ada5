/** Which limits a request has: the rules of the configuration, applied to what a proxy reports. */
import type { RuleConfig } from '../config/model.ts';
import type { LimitRequest } from '../desk.ts';

/** What is known of a request when its limits are looked up. */
export interface RequestFacts {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** What follows the `?`, or nothing. */
  readonly search: string;
  readonly host: string;
  /** By lower-case name. */
  header(name: string): string | undefined;
  /** The client's address as a key; asked only if a rule needs it. */
  address(): string;
}

export class RequestRules {
  constructor(readonly rules: readonly RuleConfig[]) {}

  /** The limits of the first rule that matches; undefined if none does. */
  limitsFor(_facts: RequestFacts): readonly LimitRequest[] | undefined {
    return undefined;
  }
}
