/**
 * What became of limits, by policy, in plain fields: they are counted at every decision, and read
 * when somebody asks for metrics, or once a second for the history.
 */
import type { Degraded, Limit, LimitDecision, Quote } from 'sluice';
import type { FailureWatcher, Watcher } from '../desk.ts';
import { ByPolicy } from './policy-labels.ts';

export const OUTCOMES = [
  'allowed',
  'denied',
  'released',
  'shadow_allowed',
  'shadow_denied',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Less full than any key can be. */
export const NOTHING_DECIDED = -1;

/** What became of the limits of one policy. */
export class Tally implements Record<Outcome, number> {
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
  fullest = NOTHING_DECIDED;

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
  tally: Tally,
  limits: readonly Limit[],
  degraded: Degraded | undefined,
  isShadow: boolean,
) => void;

const NO_LIMITS: readonly Limit[] = [];

export class Tallies {
  readonly #byPolicy = new ByPolicy((label) => new Tally(label));
  /** Mostly nobody listens, and what is allowed never asks. */
  onDenial: DenialHook | undefined = undefined;

  of(policy: string): Tally {
    return this.#byPolicy.of(policy);
  }

  get(label: string): Tally | undefined {
    return this.#byPolicy.get(label);
  }

  entries(): Iterable<[label: string, Tally]> {
    return this.#byPolicy.entries();
  }

  /** For `desk.watch`. */
  readonly watch: Watcher = ({ allowed, quote, shadow }, limits) => {
    for (const each of shadow) this.#tallyShadow(each);
    if (quote === undefined) return;
    const { degraded } = quote;
    if (degraded !== undefined) this.#degraded(quote.policy, degraded.reason, degraded.action);
    if (limits.length !== 1) this.#tallyJoint(quote, limits);
    else if (!allowed) this.#denied(quote, limits, degraded);
    else {
      const tally = this.#byPolicy.of(quote.policy);
      tally.allowed++;
      if (isMeasured(degraded)) tally.fill(quote);
    }
  };

  #tallyShadow(quote: Quote): void {
    const { allowed, policy, degraded } = quote;
    const tally = this.#byPolicy.of(policy);
    if (allowed) {
      tally.shadow_allowed++;
      if (isMeasured(degraded)) tally.fill(quote);
      return;
    }
    tally.shadow_denied++;
    if (isMeasured(degraded)) tally.fullest = 1;
    this.onDenial?.(quote, tally, NO_LIMITS, degraded, true);
  }

  #tallyJoint({ allowed, limits: decided, degraded }: Quote, limits: readonly Limit[]): void {
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

  readonly onFailure: FailureWatcher = (limits: readonly Limit[]) =>
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
