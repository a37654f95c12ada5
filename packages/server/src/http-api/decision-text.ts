/** Decisions as JSON, written by hand: it is what the service does most. */
import type { CheckResult, LimitDecision } from 'sluice';
import { DecisionRecord } from 'sluice/engine';
import { nextReceiptId, receiptOf, type ServiceDecision } from '../decision-service.ts';

function limitText(limit: LimitDecision): string {
  return (
    `"allowed":${limit.allowed},"policy":${JSON.stringify(limit.policy)},` +
    `"key":${JSON.stringify(limit.key)},"cost":${limit.cost},"limit":${limit.limit},` +
    `"remaining":${limit.remaining},"retryAfterMs":${limit.retryAfterMs},` +
    `"resetAfterMs":${limit.resetAfterMs},"atMs":${limit.atMs}`
  );
}

function resultText(result: CheckResult): string {
  const own = limitText(result);
  const { limits, degraded, cached, atomic } = result;
  const all = limits.length === 1 ? `{${own}}` : limits.map((each) => `{${limitText(each)}}`);
  let text = `${own},"limits":[${all}]`;
  if (degraded !== undefined) text += `,"degraded":${JSON.stringify(degraded)}`;
  if (cached !== undefined) text += ',"cached":true';
  if (atomic !== undefined) text += ',"atomic":false';
  return text;
}

/**
 * What is answered most: one limit, decided by the store. Its text is its own only limit's, and its
 * receipt says again what was charged, so no object is built for either.
 */
function soleText(quote: DecisionRecord, peek: boolean): string {
  const policy = JSON.stringify(quote.policy);
  const key = JSON.stringify(quote.key);
  const { allowed, cost, atMs } = quote;
  const own =
    `"allowed":${allowed},"policy":${policy},"key":${key},"cost":${cost},` +
    `"limit":${quote.limit},"remaining":${quote.remaining},` +
    `"retryAfterMs":${quote.retryAfterMs},"resetAfterMs":${quote.resetAfterMs},"atMs":${atMs}`;
  const cached = 'cached' in quote ? ',"cached":true' : '';
  if (!allowed || peek) return `{${own},"limits":[{${own}}]${cached}}`;
  const charge = `{"policy":${policy},"key":${key},"cost":${cost},"atMs":${atMs}}`;
  return `{${own},"limits":[{${own}}],"receipt":{"id":"${nextReceiptId()}","charges":[${charge}]}}`;
}

/**
 * The decision of the enforced limits, what those in shadow say, and the receipt. `limits` is how
 * many were asked for, those in shadow included.
 */
export function decisionText(
  decision: ServiceDecision,
  checkId: string | undefined,
  limits: number,
): string {
  const { result, shadow, peek } = decision;
  const isSole = limits === 1 && checkId === undefined && result instanceof DecisionRecord;
  if (isSole && !('degraded' in result)) return soleText(result, peek);
  let text = result === undefined ? '{"allowed":true,"limits":[]' : `{${resultText(result)}`;
  if (shadow.length > 0) {
    text += `,"shadow":[${shadow.map((each) => `{${limitText(each)}}`).join(',')}]`;
  }
  const receipt = receiptOf(decision, checkId);
  if (receipt !== undefined) text += `,"receipt":${JSON.stringify(receipt)}`;
  return `${text}}`;
}
