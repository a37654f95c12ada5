/**
 * Decision counters by policy, in plain fields. Every decision increments them. The metrics read
 * them, and the history reads them once a second.
 */
import type { CheckResult, Degraded, Limit, LimitDecision } from 'sluice';
import type { DecisionListener, FailureListener } from '../decision-service.ts';
import { ByPolicy } from './policy-labels.ts';

export const DECISION_OUTCOMES = [
  'allowed',
  'denied',
  'released',
  'shadow_allowed',
  'shadow_denied',
] as const;
export type DecisionOutcome = (typeof DECISION_OUTCOMES)[number];

/** Value of `fullest` if there was no decision since the history last reset it. */
export const NO_FULLEST = -1;

export class PolicyCounters implements Record<DecisionOutcome, number> {
  allowed = 0;
  denied = 0;
  /** Number of limits that allowed, while another limit of their check denied. */
  released = 0;
  shadow_allowed = 0;
  shadow_denied = 0;
  /**
   * How many of the `denied` were denials of blocked keys, including the denials that started a
   * block.
   */
  blocked = 0;
  /** Number of degraded checks by reason and action, as JSON. */
  readonly degraded = new Map<string, number>();
  /** Sum of all numbers in `degraded`. */
  degradedChecks = 0;
  /**
   * Used part of the limit, from 0 to 1, of the key that used most since the history last reset
   * this value.
   */
  fullest = NO_FULLEST;

  constructor(readonly label: string) {}

  /** Raises `fullest` if the key of the decision has used a larger part of its limit. */
  fill({ remaining, limit }: LimitDecision): void {
    const full = 1 - remaining / limit;
    if (full > this.fullest) this.fullest = full;
  }
}

/** Receives the decision of each limit that denied, with the enforced limits of its check. */
export type DenialHook = (
  denied: LimitDecision,
  counters: PolicyCounters,
  limits: readonly Limit[],
  degraded: Degraded | undefined,
  isShadow: boolean,
) => void;

const NO_LIMITS: readonly Limit[] = [];

export class DecisionCounters {
  readonly #byPolicy = new ByPolicy((label) => new PolicyCounters(label));
  /** Set while event streams are open. */
  onDenial: DenialHook | undefined = undefined;

  of(policy: string): PolicyCounters {
    return this.#byPolicy.of(policy);
  }

  get(label: string): PolicyCounters | undefined {
    return this.#byPolicy.get(label);
  }

  entries(): Iterable<[label: string, PolicyCounters]> {
    return this.#byPolicy.entries();
  }

  /** Listener for `DecisionService.watch`. */
  readonly watch: DecisionListener = ({ allowed, result, shadow }, limits) => {
    for (const each of shadow) this.#countShadow(each);
    if (result === undefined) return;
    const { degraded } = result;
    if (degraded !== undefined) this.#degraded(result.policy, degraded.reason, degraded.action);
    if (limits.length !== 1) this.#countJoint(result, limits);
    else if (!allowed) this.#denied(result, limits, degraded);
    else {
      const counters = this.#byPolicy.of(result.policy);
      counters.allowed++;
      if (isMeasured(degraded)) counters.fill(result);
    }
  };

  #countShadow(result: CheckResult): void {
    const { allowed, policy, degraded } = result;
    const counters = this.#byPolicy.of(policy);
    if (allowed) {
      counters.shadow_allowed++;
      if (isMeasured(degraded)) counters.fill(result);
      return;
    }
    counters.shadow_denied++;
    if (isMeasured(degraded)) counters.fullest = 1;
    this.onDenial?.(result, counters, NO_LIMITS, degraded, true);
  }

  #countJoint({ allowed, limits: decided, degraded }: CheckResult, limits: readonly Limit[]): void {
    for (const each of decided) {
      if (!allowed && !each.allowed) {
        this.#denied(each, limits, degraded);
        continue;
      }
      const counters = this.#byPolicy.of(each.policy);
      if (allowed) counters.allowed++;
      else counters.released++;
      if (isMeasured(degraded)) counters.fill(each);
    }
  }

  #denied(limit: LimitDecision, limits: readonly Limit[], degraded: Degraded | undefined): void {
    const counters = this.#byPolicy.of(limit.policy);
    counters.denied++;
    if (limit.blockedUntilMs !== undefined) counters.blocked++;
    if (isMeasured(degraded)) counters.fullest = 1;
    this.onDenial?.(limit, counters, limits, degraded, false);
  }

  readonly onFailure: FailureListener = (limits: readonly Limit[]) =>
    this.#degraded(limits[0].policy.name, 'unavailable', 'throw');

  #degraded(policy: string, reason: string, action: string): void {
    const counters = this.#byPolicy.of(policy);
    const id = JSON.stringify({ reason, action });
    counters.degraded.set(id, (counters.degraded.get(id) ?? 0) + 1);
    counters.degradedChecks++;
  }
}

/**
 * Whether `remaining` comes from a counter. The fallback actions `allow` and `deny` set no real
 * value.
 */
const isMeasured = (degraded: Degraded | undefined): boolean =>
  degraded === undefined || degraded.action === 'local';
