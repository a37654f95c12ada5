import type { Decision } from '../decision.ts';

/** Decisions by request, for adapters that set no property on the request. */
const decisions = new WeakMap<object, Decision>();

export function setDecision(request: object, decision: Decision | undefined): void {
  if (decision !== undefined) decisions.set(request, decision);
}

/**
 * Returns the decision of a request in its handler; undefined if the request was not limited.
 *
 *     limited((request) => Response.json({ remaining: decisionOf(request)?.remaining }));
 */
export function decisionOf(request: object): Decision | undefined {
  return decisions.get(request);
}
