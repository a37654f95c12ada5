/**
 * Decides the claims of a request. A claim is one limit with the cost of the request (`plan.ts`).
 * All charges are made in one atomic step. Some claims are peeked first: claims with cost 0, soft
 * claims, and claims whose cost exceeds the capacity. Their results determine which claims are
 * charged.
 */
import { type CheckResult, type Limit, type LimitDecision, systemClock } from 'sluice';
import { jointDecision } from 'sluice/engine';
import {
  type DecisionService,
  permanentDenial,
  type ServiceDecision,
} from '../decision-service.ts';
import type { Blocked, Claim, Plan } from './plan.ts';

export interface DescriptorDecisions {
  readonly isDenied: boolean;
  /** The joint result of the enforced limits. `retryAfterMs` may be infinite. */
  readonly result?: CheckResult | undefined;
  /** The limits of `result`. */
  readonly limits: readonly Limit[];
}

/** Whether the cost exceeds the capacity. Such a cost must not be sent to the store. */
export const isTooLarge = ({ cost, limit }: Claim): boolean => cost > limit.params.capacity;

/** Whether an enforced claim is denied. */
export const isExceeded = (claim: Claim): boolean =>
  !claim.isShadow && (isTooLarge(claim) || claim.decision?.allowed === false);

export function decide(
  decisionService: DecisionService,
  plan: Plan,
): DescriptorDecisions | Promise<DescriptorDecisions> {
  const { claims, items } = plan;
  const isOneStep = claims.every((claim) => claim.cost > 0 && !claim.isSoft && !isTooLarge(claim));
  if (!isOneStep || items.some(({ kind }) => kind === 'blocked'))
    return decideInSteps(decisionService, plan);
  if (claims.length === 0) return { isDenied: false, limits: [] };
  const decision = decisionService.decide(claims.map(chargedLimit));
  return decision instanceof Promise
    ? decision.then((later) => outcomeOf(claims, later))
    : outcomeOf(claims, decision);
}

function outcomeOf(claims: readonly Claim[], decision: ServiceDecision): DescriptorDecisions {
  setDecisions(claims, decision);
  const { allowed, result } = decision;
  const limits = claims.filter(({ isShadow }) => !isShadow).map(({ limit }) => limit);
  return { isDenied: !allowed, result, limits };
}

/** Returns the limit with the cost of the claim. */
const chargedLimit = ({ limit, cost }: Claim): Limit =>
  cost === limit.cost ? limit : { ...limit, cost };

/** Returns the limit to peek, with the cost of the claim, or 1 if the cost is 0 or too large. */
const peekedLimit = (claim: Claim): Limit =>
  claim.cost === 0 || isTooLarge(claim) ? { ...claim.limit, cost: 1 } : chargedLimit(claim);

/** Sets the decision of each claim. If the enforced limits deny, shadow claims get no decision. */
function setDecisions(claims: readonly Claim[], { result, shadow }: ServiceDecision): void {
  if (claims.length === 1) {
    claims[0].decision = result ?? shadow[0];
    return;
  }
  const decisions = [...(result?.limits ?? []), ...shadow];
  for (const claim of claims) {
    const { key, policy } = claim.limit;
    const decided = decisions.find((each) => each.key === key && each.policy === policy.name);
    claim.decision = decided ?? claim.decision;
  }
}

/** The results of the steps, for the response and the listeners. */
interface Trace {
  degraded: CheckResult['degraded'];
  shadow: readonly CheckResult[];
  /** The claims that were charged, or only peeked if the request was denied before. */
  paid: readonly Claim[];
}

async function decideInSteps(
  decisionService: DecisionService,
  plan: Plan,
): Promise<DescriptorDecisions> {
  const { claims, items } = plan;
  const trace: Trace = { degraded: undefined, shadow: [], paid: [] };
  const step = async (stepClaims: readonly Claim[], limits: readonly Limit[], peek: boolean) => {
    const decision = await decisionService.decide(limits, { peek, isQuiet: true });
    trace.degraded ??= decision.result?.degraded;
    if (!peek && decision.allowed) trace.shadow = decision.shadow;
    setDecisions(stepClaims, decision);
    return decision.allowed;
  };
  const first = claims.filter((claim) => claim.cost === 0 || claim.isSoft || isTooLarge(claim));
  if (first.length > 0) await step(first, first.map(peekedLimit), true);

  const blocked = items.flatMap((item) => item.blocked ?? []).filter(({ isShadow }) => !isShadow);
  const isForever = blocked.some(({ isSoft }) => !isSoft) || first.some(isDenyingForever);
  const soft = claims.filter(({ isSoft, isShadow }) => isSoft && !isShadow);
  const hasSoft = soft.length > 0 || blocked.some(({ isSoft }) => isSoft);
  const areAllSoftExceeded = (): boolean => hasSoft && soft.every(isExceeded);

  let isDenied = isForever || first.some(isDenying) || areAllSoftExceeded();
  let paid = claims.filter((claim) => claim.cost > 0 && !isTooLarge(claim));
  for (;;) {
    paid = paid.filter((claim) => !claim.isSoft || !isExceeded(claim));
    // For a denied request, the other limits are only peeked.
    if (paid.length === 0 || (await step(paid, paid.map(chargedLimit), isDenied))) break;
    if (isDenied) break;
    // Nothing was charged. If only soft limits have become exceeded since the peek, retry without
    // them.
    isDenied = !paid.some(isExceeded) || paid.some(isDenying) || areAllSoftExceeded();
    if (isDenied) break;
  }
  trace.paid = paid;
  return combineAndNotify(decisionService, plan, isDenied, trace);
}

/**
 * Returns the joint decision of all steps and passes it to the listeners, because the single steps
 * do not call them.
 */
function combineAndNotify(
  decisionService: DecisionService,
  { claims, items }: Plan,
  isDenied: boolean,
  trace: Trace,
): DescriptorDecisions {
  const blocked = items.flatMap((item) => item.blocked ?? []);
  const enforced = claims.filter(({ isShadow }) => !isShadow);
  const stops = isDenied ? blocked.filter(({ isShadow }) => !isShadow).map(blockedPart) : [];
  // A claim with cost 0 is reported only if it is exceeded.
  const reportedClaims = isDenied
    ? enforced.filter((claim) => claim.cost > 0 || isExceeded(claim))
    : trace.paid.filter(({ isShadow }) => !isShadow);
  const parts = [...stops, ...reportedClaims.flatMap(claimPart)];
  const result = resultOf(parts, trace.degraded);
  const shadow = isDenied ? [] : [...trace.shadow, ...shadowDenials(claims, blocked)];
  if (result !== undefined || shadow.length > 0) {
    decisionService.notify({ allowed: !isDenied, result, shadow, peek: false }, limitsOf(parts));
  }
  // The headers of an allowed request leave out exceeded soft limits.
  const shown = enforced.filter((claim) => isDenied || !isExceeded(claim)).flatMap(claimPart);
  const all = [...stops, ...shown];
  return { isDenied, result: resultOf(all, trace.degraded), limits: limitsOf(all) };
}

/** Returns denials with an infinite wait for the shadow limits that no step has decided. */
const shadowDenials = (
  claims: readonly Claim[],
  blocked: readonly Blocked[],
): readonly CheckResult[] => {
  const tooLarge = claims.filter((claim) => claim.isShadow && isTooLarge(claim));
  const stops = blocked.filter(({ isShadow }) => isShadow);
  const parts = [...tooLarge.flatMap(claimPart), ...stops.map(blockedPart)];
  return parts.map((part) => resultOf([part])!);
};

/** A limit and its decision, as a part of the joint result. */
interface Part {
  readonly limit: Limit;
  readonly decision: LimitDecision;
}

const limitsOf = (parts: readonly Part[]): readonly Limit[] => parts.map(({ limit }) => limit);

function claimPart(claim: Claim): readonly Part[] {
  const { limit, cost, decision } = claim;
  if (decision === undefined) return [];
  return [{ limit, decision: isTooLarge(claim) ? permanentDenial(decision, cost) : decision }];
}

function blockedPart({ limit }: Blocked): Part {
  const { policy, key, cost } = limit;
  const nothing = { limit: 0, remaining: 0, resetAfterMs: policy.windowMs, retryAfterMs: 0 };
  const atMs = systemClock.now();
  const known = { policy: policy.name, key, cost, allowed: false, ...nothing, atMs };
  return { limit, decision: permanentDenial(known, cost) };
}

function resultOf(
  parts: readonly Part[],
  degraded?: CheckResult['degraded'],
): CheckResult | undefined {
  if (parts.length === 0) return undefined;
  const decisions = parts.map(({ decision }) => decision);
  const result = jointDecision(decisions, false);
  return degraded === undefined ? result : Object.assign(result, { degraded });
}

/** Whether the claim alone denies the request. */
const isDenying = (claim: Claim): boolean => !claim.isSoft && isExceeded(claim);

/** Whether the claim alone denies the request, however long the client waits. */
const isDenyingForever = (claim: Claim): boolean =>
  !claim.isSoft && !claim.isShadow && isTooLarge(claim);
