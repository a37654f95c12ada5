/**
 * What became of limits, by policy, in plain fields: they are counted at every decision, and read
 * when somebody asks for metrics, or once a second for the history.
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

/** Less full than any key can be. */
export const ZERO_COUNTERS = -1;

/** What became of the limits of one policy. */
export class PolicyCounters implements Record<DecisionOutcome, number> {
  allowed = 0;
  denied = 0;
  released = 0;
  shadow_allowed = 0;
  shadow_denied = 0;
  /** By reason and action, as JSON. */
  readonly degraded = new Map<string, number>();
  /** All of them. */
  degradedChecks = 0;
  /** How full the fullest key was, from 0 to 1, since whoever reads it made it new. */
  fullest = ZERO_COUNTERS;

  constructor(readonly label: string) {}

  /** Keeps the fullest: one division and one comparison, since it is done at every decision. */
  fill({ remaining, limit }: LimitDecision): void {
    const full = 1 - remaining / limit;
    if (full > this.fullest) this.fullest = full;
  }
}

/** Told of a limit that denied, with the enforced limits of its check. */
export type DenialHook = (
  denied: LimitDecision,
  tally: PolicyCounters,
  limits: readonly Limit[],
  degraded: Degraded | undefined,
  isShadow: boolean,
) => void;

const NO_LIMITS: readonly Limit[] = [];

export class DecisionCounters {
  readonly #byPolicy = new ByPolicy((label) => new PolicyCounters(label));
  /** Mostly nobody listens, and what is allowed never asks. */
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

  /** For `desk.watch`. */
  readonly watch: DecisionListener = ({ allowed, result, shadow }, limits) => {
    for (const each of shadow) this.#countShadow(each);
    if (result === undefined) return;
    const { degraded } = result;
    if (degraded !== undefined) this.#degraded(result.policy, degraded.reason, degraded.action);
    if (limits.length !== 1) this.#countJoint(result, limits);
    else if (!allowed) this.#denied(result, limits, degraded);
    else {
      const tally = this.#byPolicy.of(result.policy);
      tally.allowed++;
      if (isMeasured(degraded)) tally.fill(result);
    }
  };

  #countShadow(result: CheckResult): void {
    const { allowed, policy, degraded } = result;
    const tally = this.#byPolicy.of(policy);
    if (allowed) {
      tally.shadow_allowed++;
      if (isMeasured(degraded)) tally.fill(result);
      return;
    }
    tally.shadow_denied++;
    if (isMeasured(degraded)) tally.fullest = 1;
    this.onDenial?.(result, tally, NO_LIMITS, degraded, true);
  }

  #countJoint({ allowed, limits: decided, degraded }: CheckResult, limits: readonly Limit[]): void {
    for (const each of decided) {
      if (!allowed && !each.allowed) {
        this.#denied(each, limits, degraded);
        continue;
      }
      const tally = this.#byPolicy.of(each.policy);
      if (allowed) tally.allowed++;
      else tally.released++;
      if (isMeasured(degraded)) tally.fill(each);
    }
  }

  #denied(limit: LimitDecision, limits: readonly Limit[], degraded: Degraded | undefined): void {
    const tally = this.#byPolicy.of(limit.policy);
    tally.denied++;
    if (isMeasured(degraded)) tally.fullest = 1;
    this.onDenial?.(limit, tally, limits, degraded, false);
  }

  readonly onFailure: FailureListener = (limits: readonly Limit[]) =>
    this.#degraded(limits[0].policy.name, 'unavailable', 'throw');

  #degraded(policy: string, reason: string, action: string): void {
    const tally = this.#byPolicy.of(policy);
    const id = JSON.stringify({ reason, action });
    tally.degraded.set(id, (tally.degraded.get(id) ?? 0) + 1);
    tally.degradedChecks++;
  }
}

/** Who is allowed or denied because the store is away was not measured. */
const isMeasured = (degraded: Degraded | undefined): boolean =>
  degraded === undefined || degraded.action === 'local';
