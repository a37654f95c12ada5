/**
 * Has the claims of a request decided: all that are charged in one step, all or nothing. What costs
 * nothing, can never fit or is soft is asked beforehand, because the answer says what is charged.
 */
import { type Limit, type LimitDecision, type Quote, systemClock } from 'sluice';
import { jointDecision } from 'sluice/engine';
import { type Desk, neverFits, type Verdict } from '../desk.ts';
import type { Blocked, Claim, Plan } from './plan.ts';

export interface Outcome {
  readonly isDenied: boolean;
  /** What the enforced limits say together; its wait is infinite if no wait helps. */
  readonly quote?: Quote | undefined;
  /** The limits that it is about. */
  readonly limits: readonly Limit[];
}

/** What does not fit however long it waits. Nothing of it must reach the store. */
export const isTooLarge = ({ cost, limit }: Claim): boolean => cost > limit.terms.capacity;

/** Whether a claim says no. Those in shadow are not listened to. */
export const isExceeded = (claim: Claim): boolean =>
  !claim.isShadow && (isTooLarge(claim) || claim.answer?.allowed === false);

export function decide(desk: Desk, plan: Plan): Outcome | Promise<Outcome> {
  const { claims, items } = plan;
  const isOneStep = claims.every((claim) => claim.cost > 0 && !claim.isSoft && !isTooLarge(claim));
  if (!isOneStep || items.some(({ kind }) => kind === 'blocked')) return decideInSteps(desk, plan);
  if (claims.length === 0) return { isDenied: false, limits: [] };
  const verdict = desk.decide(claims.map(chargedLimit));
  return verdict instanceof Promise
    ? verdict.then((later) => outcomeOf(claims, later))
    : outcomeOf(claims, verdict);
}

function outcomeOf(claims: readonly Claim[], verdict: Verdict): Outcome {
  tell(claims, verdict);
  const { allowed, quote } = verdict;
  const limits = claims.filter(({ isShadow }) => !isShadow).map(({ limit }) => limit);
  return { isDenied: !allowed, quote, limits };
}

/** The limit with what the request takes of it. */
const chargedLimit = ({ limit, cost }: Claim): Limit =>
  cost === limit.cost ? limit : { ...limit, cost };

/** The limit with what it is asked about: room for all of that, or for anything at all. */
const askedLimit = (claim: Claim): Limit =>
  claim.cost === 0 || isTooLarge(claim) ? { ...claim.limit, cost: 1 } : chargedLimit(claim);

/** Gives each claim its answer. Those in shadow have none if the others deny. */
function tell(claims: readonly Claim[], { quote, shadow }: Verdict): void {
  if (claims.length === 1) {
    claims[0].answer = quote ?? shadow[0];
    return;
  }
  const answers = [...(quote?.limits ?? []), ...shadow];
  for (const claim of claims) {
    const { key, policy } = claim.limit;
    const answer = answers.find((each) => each.key === key && each.policy === policy.name);
    claim.answer = answer ?? claim.answer;
  }
}

/** What the steps of a decision leave to be reported. */
interface Trace {
  degraded: Quote['degraded'];
  shadow: readonly Quote[];
  /** What was charged. */
  paid: readonly Claim[];
}

async function decideInSteps(desk: Desk, plan: Plan): Promise<Outcome> {
  const { claims, items } = plan;
  const trace: Trace = { degraded: undefined, shadow: [], paid: [] };
  const ask = async (asked: readonly Claim[], limits: readonly Limit[], peek: boolean) => {
    const verdict = await desk.decide(limits, { peek, isQuiet: true });
    trace.degraded ??= verdict.quote?.degraded;
    if (!peek && verdict.allowed) trace.shadow = verdict.shadow;
    tell(asked, verdict);
    return verdict.allowed;
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
  return reported(desk, plan, isDenied, trace);
}

/** Tells the desk's watchers of the whole decision, which no single step has shown them. */
function reported(desk: Desk, { claims, items }: Plan, isDenied: boolean, trace: Trace): Outcome {
  const blocked = items.flatMap((item) => item.blocked ?? []);
  const enforced = claims.filter(({ isShadow }) => !isShadow);
  const stops = isDenied ? blocked.filter(({ isShadow }) => !isShadow).map(blockedPart) : [];
  // Without a cost a limit that has room was only asked, and nothing became of it.
  const concerned = isDenied
    ? enforced.filter((claim) => claim.cost > 0 || isExceeded(claim))
    : trace.paid.filter(({ isShadow }) => !isShadow);
  const parts = [...stops, ...concerned.flatMap(claimPart)];
  const quote = quoteOf(parts, trace.degraded);
  const shadow = isDenied ? [] : [...trace.shadow, ...shadowDenials(claims, blocked)];
  if (quote !== undefined || shadow.length > 0) {
    desk.tell({ allowed: !isDenied, quote, shadow, peek: false }, limitsOf(parts));
  }
  // Soft limits that do not stand in the way of an admitted request have nothing to tell.
  const shown = enforced.filter((claim) => isDenied || !isExceeded(claim)).flatMap(claimPart);
  const all = [...stops, ...shown];
  return { isDenied, quote: quoteOf(all, trace.degraded), limits: limitsOf(all) };
}

/** What limits in shadow would have denied for ever, without being asked. */
const shadowDenials = (claims: readonly Claim[], blocked: readonly Blocked[]): readonly Quote[] => {
  const tooLarge = claims.filter((claim) => claim.isShadow && isTooLarge(claim));
  const stops = blocked.filter(({ isShadow }) => isShadow);
  const parts = [...tooLarge.flatMap(claimPart), ...stops.map(blockedPart)];
  return parts.map((part) => quoteOf([part])!);
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

function quoteOf(parts: readonly Part[], degraded?: Quote['degraded']): Quote | undefined {
  if (parts.length === 0) return undefined;
  const decisions = parts.map(({ decision }) => decision);
  const quote = jointDecision(decisions, false);
  return degraded === undefined ? quote : Object.assign(quote, { degraded });
}

const isHardNo = (claim: Claim): boolean => !claim.isSoft && isExceeded(claim);

const isHopeless = (claim: Claim): boolean => !claim.isSoft && !claim.isShadow && isTooLarge(claim);
