/**
 * Has the claims of a request decided: all that are charged in one step, all or nothing. What costs
 * nothing, can never fit or is soft is asked beforehand, because the answer says what is charged.
 */
import { type CheckResult, type Limit, type LimitDecision, systemClock } from 'sluice';
import { jointDecision } from 'sluice/engine';
import { type DecisionService, neverFits, type ServiceDecision } from '../decision-service.ts';
import type { Blocked, Claim, Plan } from './plan.ts';

export interface DescriptorDecisions {
  readonly isDenied: boolean;
  /** What the enforced limits say together; its wait is infinite if no wait helps. */
  readonly result?: CheckResult | undefined;
  /** The limits that it is about. */
  readonly limits: readonly Limit[];
}

/** What does not fit however long it waits. Nothing of it must reach the store. */
export const isTooLarge = ({ cost, limit }: Claim): boolean => cost > limit.params.capacity;

/** Whether a claim says no. Those in shadow are not listened to. */
export const isExceeded = (claim: Claim): boolean =>
  !claim.isShadow && (isTooLarge(claim) || claim.answer?.allowed === false);

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
  tell(claims, decision);
  const { allowed, result } = decision;
  const limits = claims.filter(({ isShadow }) => !isShadow).map(({ limit }) => limit);
  return { isDenied: !allowed, result, limits };
}

/** The limit with what the request takes of it. */
const chargedLimit = ({ limit, cost }: Claim): Limit =>
  cost === limit.cost ? limit : { ...limit, cost };

/** The limit with what it is asked about: room for all of that, or for anything at all. */
const askedLimit = (claim: Claim): Limit =>
  claim.cost === 0 || isTooLarge(claim) ? { ...claim.limit, cost: 1 } : chargedLimit(claim);

/** Gives each claim its answer. Those in shadow have none if the others deny. */
function tell(claims: readonly Claim[], { result, shadow }: ServiceDecision): void {
  if (claims.length === 1) {
    claims[0].answer = result ?? shadow[0];
    return;
  }
  const answers = [...(result?.limits ?? []), ...shadow];
  for (const claim of claims) {
    const { key, policy } = claim.limit;
    const answer = answers.find((each) => each.key === key && each.policy === policy.name);
    claim.answer = answer ?? claim.answer;
  }
}

/** What the steps of a decision leave to be reported. */
interface Trace {
  degraded: CheckResult['degraded'];
  shadow: readonly CheckResult[];
  /** What was charged. */
  paid: readonly Claim[];
}

async function decideInSteps(
  decisionService: DecisionService,
  plan: Plan,
): Promise<DescriptorDecisions> {
  const { claims, items } = plan;
  const trace: Trace = { degraded: undefined, shadow: [], paid: [] };
  const ask = async (asked: readonly Claim[], limits: readonly Limit[], peek: boolean) => {
    const decision = await decisionService.decide(limits, { peek, isQuiet: true });
    trace.degraded ??= decision.result?.degraded;
    if (!peek && decision.allowed) trace.shadow = decision.shadow;
    tell(asked, decision);
    return decision.allowed;
  };
  const first = claims.filter((claim) => claim.cost === 0 || claim.isSoft || isTooLarge(claim));
  if (first.length > 0) await ask(first, first.map(askedLimit), true);

  const blocked = items.flatMap((item) => item.blocked ?? []).filter(({ isShadow }) => !isShadow);
  const isForever = blocked.some(({ isSoft }) => !isSoft) || first.some(isHopeless);
  const soft = claims.filter(({ isSoft, isShadow }) => isSoft && !isShadow);
  const hasSoft = soft.length > 0 || blocked.some(({ isSoft }) => isSoft);
  const areAllSoftExceeded = (): boolean => hasSoft && soft.every(isExceeded);

  let isDenied = isForever || first.some(isHardNo) || areAllSoftExceeded();
  let paid = claims.filter((claim) => claim.cost > 0 && !isTooLarge(claim));
  for (;;) {
    paid = paid.filter((claim) => !claim.isSoft || !isExceeded(claim));
    // A request that is denied is only asked about, for what the other limits have to say.
    if (paid.length === 0 || (await ask(paid, paid.map(chargedLimit), isDenied))) break;
    if (isDenied) break;
    // Nothing was charged. If only soft limits have filled up meanwhile, the others are left.
    isDenied = !paid.some(isExceeded) || paid.some(isHardNo) || areAllSoftExceeded();
    if (isDenied) break;
  }
  trace.paid = paid;
  return reported(decisionService, plan, isDenied, trace);
}

/** Tells the desk's watchers of the whole decision, which no single step has shown them. */
function reported(
  decisionService: DecisionService,
  { claims, items }: Plan,
  isDenied: boolean,
  trace: Trace,
): DescriptorDecisions {
  const blocked = items.flatMap((item) => item.blocked ?? []);
  const enforced = claims.filter(({ isShadow }) => !isShadow);
  const stops = isDenied ? blocked.filter(({ isShadow }) => !isShadow).map(blockedPart) : [];
  // Without a cost a limit that has room was only asked, and nothing became of it.
  const concerned = isDenied
    ? enforced.filter((claim) => claim.cost > 0 || isExceeded(claim))
    : trace.paid.filter(({ isShadow }) => !isShadow);
  const parts = [...stops, ...concerned.flatMap(claimPart)];
  const result = resultOf(parts, trace.degraded);
  const shadow = isDenied ? [] : [...trace.shadow, ...shadowDenials(claims, blocked)];
  if (result !== undefined || shadow.length > 0) {
    decisionService.tell({ allowed: !isDenied, result, shadow, peek: false }, limitsOf(parts));
  }
  // Soft limits that do not stand in the way of an admitted request have nothing to tell.
  const shown = enforced.filter((claim) => isDenied || !isExceeded(claim)).flatMap(claimPart);
  const all = [...stops, ...shown];
  return { isDenied, result: resultOf(all, trace.degraded), limits: limitsOf(all) };
}

/** What limits in shadow would have denied for ever, without being asked. */
const shadowDenials = (
  claims: readonly Claim[],
  blocked: readonly Blocked[],
): readonly CheckResult[] => {
  const tooLarge = claims.filter((claim) => claim.isShadow && isTooLarge(claim));
  const stops = blocked.filter(({ isShadow }) => isShadow);
  const parts = [...tooLarge.flatMap(claimPart), ...stops.map(blockedPart)];
  return parts.map((part) => resultOf([part])!);
};

interface Part {
  readonly limit: Limit;
  readonly decision: LimitDecision;
}

const limitsOf = (parts: readonly Part[]): readonly Limit[] => parts.map(({ limit }) => limit);

function claimPart(claim: Claim): readonly Part[] {
  const { limit, cost, answer } = claim;
  if (answer === undefined) return [];
  return [{ limit, decision: isTooLarge(claim) ? neverFits(answer, cost) : answer }];
}

function blockedPart({ limit }: Blocked): Part {
  const { policy, key, cost } = limit;
  const nothing = { limit: 0, remaining: 0, resetAfterMs: policy.windowMs, retryAfterMs: 0 };
  const atMs = systemClock.now();
  const known = { policy: policy.name, key, cost, allowed: false, ...nothing, atMs };
  return { limit, decision: neverFits(known, cost) };
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

const isHardNo = (claim: Claim): boolean => !claim.isSoft && isExceeded(claim);

const isHopeless = (claim: Claim): boolean => !claim.isSoft && !claim.isShadow && isTooLarge(claim);
