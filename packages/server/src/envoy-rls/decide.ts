/**
 * Has the claims of a request decided: all that are charged in one step, all or nothing. What costs
 * nothing, can never fit or is soft is asked beforehand, because the answer says what is charged.
 */
import type { Limit, Quote } from 'sluice';
import type { Desk, Verdict } from '../desk.ts';
import type { Claim, Plan } from './plan.ts';

export interface Outcome {
  readonly isDenied: boolean;
  /** Whether waiting does not help, because a limit is smaller than what is asked of it. */
  readonly isForEver: boolean;
  /** Whether the store was away, and so nothing has been measured. */
  readonly isAway: boolean;
  /** What the enforced limits say together, if they were asked in one step. */
  readonly quote?: Quote | undefined;
}

/** What does not fit however long it waits. Nothing of it must reach the store. */
const isTooLarge = ({ cost, limit }: Claim): boolean => cost > limit.terms.capacity;

/** Whether a claim says no. Those in shadow are not listened to. */
export const isExceeded = (claim: Claim): boolean =>
  !claim.isShadow && (isTooLarge(claim) || claim.answer?.allowed === false);

export function decide(desk: Desk, plan: Plan): Outcome | Promise<Outcome> {
  const { claims, items } = plan;
  const isOneStep = claims.every((claim) => claim.cost > 0 && !claim.isSoft && !isTooLarge(claim));
  if (!isOneStep || items.some(({ kind }) => kind === 'blocked')) return decideInSteps(desk, plan);
  if (claims.length === 0) return { isDenied: false, isForEver: false, isAway: false };
  const verdict = desk.decide(claims.map(chargedLimit));
  return verdict instanceof Promise
    ? verdict.then((later) => outcomeOf(claims, later))
    : outcomeOf(claims, verdict);
}

function outcomeOf(claims: readonly Claim[], verdict: Verdict): Outcome {
  tell(claims, verdict);
  const { allowed, quote } = verdict;
  return { isDenied: !allowed, isForEver: false, isAway: isAway(verdict), quote };
}

const isAway = ({ quote }: Verdict): boolean => quote?.degraded?.action === 'deny';

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

async function decideInSteps(desk: Desk, { claims, items }: Plan): Promise<Outcome> {
  let isDegraded = false;
  const ask = async (asked: readonly Claim[], limits: readonly Limit[], peek: boolean) => {
    const verdict = await desk.decide(limits, { peek });
    isDegraded ||= isAway(verdict);
    tell(asked, verdict);
    return verdict.allowed;
  };
  const first = claims.filter((claim) => claim.cost === 0 || claim.isSoft || isTooLarge(claim));
  if (first.length > 0) await ask(first, first.map(askedLimit), true);

  const blocked = items.flatMap((item) => item.blocked ?? []).filter(({ isShadow }) => !isShadow);
  const isForEver = blocked.some(({ isSoft }) => !isSoft) || first.some(isHopeless);
  const soft = claims.filter(({ isSoft, isShadow }) => isSoft && !isShadow);
  const hasSoft = soft.length > 0 || blocked.some(({ isSoft }) => isSoft);
  const areAllSoftExceeded = (): boolean => hasSoft && soft.every(isExceeded);

  let isDenied = isForEver || first.some(isHardNo) || areAllSoftExceeded();
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
  return { isDenied, isForEver, isAway: isDegraded };
}

const isHardNo = (claim: Claim): boolean => !claim.isSoft && isExceeded(claim);

const isHopeless = (claim: Claim): boolean => !claim.isSoft && !claim.isShadow && isTooLarge(claim);
