/** Serializes decisions to JSON by string concatenation, which avoids building objects. */
import type { CheckResult, LimitDecision } from 'sluice';
import { DecisionRecord } from 'sluice/engine';
import type { ServiceDecision } from '../decision-service.ts';
import { nextReceiptId, receiptOf } from '../receipts.ts';

function limitText(limit: LimitDecision): string {
  return (
    `"allowed":${limit.allowed},"policy":${JSON.stringify(limit.policy)},` +
    `"key":${JSON.stringify(limit.key)},"cost":${limit.cost},"limit":${limit.limit},` +
    `"remaining":${limit.remaining},"retryAfterMs":${limit.retryAfterMs},` +
    `"resetAfterMs":${limit.resetAfterMs},"atMs":${limit.atMs}${holdText(limit)}`
  );
}

/** Returns the fields that only concurrency limits, blocked keys and leases have. */
function holdText({ fence, lease, blockedUntilMs }: LimitDecision): string {
  if (fence !== undefined) return `,"fence":${fence}`;
  if (lease !== undefined) return `,"lease":${lease}`;
  return blockedUntilMs === undefined ? '' : `,"blockedUntilMs":${blockedUntilMs}`;
}

function resultText(result: CheckResult): string {
  const own = limitText(result);
  const { limits, degraded, cached, atomic, leased } = result;
  const all = limits.length === 1 ? `{${own}}` : limits.map((each) => `{${limitText(each)}}`);
  let text = `${own},"limits":[${all}]`;
  if (degraded !== undefined) text += `,"degraded":${JSON.stringify(degraded)}`;
  if (cached !== undefined) text += ',"cached":true';
  if (atomic !== undefined) text += ',"atomic":false';
  if (leased !== undefined) text += ',"leased":true';
  return text;
}

/**
 * Fast path for a decision on one limit. The JSON has the same fields for the decision and for its
 * only limit, so they are serialized once. The policy and the key are also used in the receipt.
 */
function singleText(result: DecisionRecord, peek: boolean, client: string): string {
  const policy = JSON.stringify(result.policy);
  const key = JSON.stringify(result.key);
  const { allowed, cost, atMs, fence, lease } = result;
  const own =
    `"allowed":${allowed},"policy":${policy},"key":${key},"cost":${cost},` +
    `"limit":${result.limit},"remaining":${result.remaining},` +
    `"retryAfterMs":${result.retryAfterMs},"resetAfterMs":${result.resetAfterMs},"atMs":${atMs}` +
    holdText(result);
  const cached = 'cached' in result ? ',"cached":true' : '';
  if (!allowed || peek) return `{${own},"limits":[{${own}}]${cached}}`;
  const hold = fence === undefined && lease === undefined ? '' : holdText(result);
  const charge = `{"policy":${policy},"key":${key},"cost":${cost},"atMs":${atMs}${hold}}`;
  const id = nextReceiptId(client);
  const leased = lease === undefined ? '' : ',"leased":true';
  return `{${own},"limits":[{${own}}]${leased},"receipt":{"id":"${id}","charges":[${charge}]}}`;
}

/** Returns the JSON of a decision. `limits` is the number of limits of the check. */
export function decisionText(
  decision: ServiceDecision,
  checkId: string | undefined,
  limits: number,
  client: string,
): string {
  const { result, shadow, peek } = decision;
  const isSingle = limits === 1 && checkId === undefined && result instanceof DecisionRecord;
  if (isSingle && !('degraded' in result)) return singleText(result, peek, client);
  let text = result === undefined ? '{"allowed":true,"limits":[]' : `{${resultText(result)}`;
  if (shadow.length > 0) {
    text += `,"shadow":[${shadow.map((each) => `{${limitText(each)}}`).join(',')}]`;
  }
  const receipt = receiptOf(decision, checkId, client);
  if (receipt !== undefined) text += `,"receipt":${JSON.stringify(receipt)}`;
  return `${text}}`;
}
