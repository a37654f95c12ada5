/** Decisions as JSON, written by hand: it is what the service does most. */
import type { LimitDecision, Quote } from 'sluice';
import { receiptOf, type Verdict } from '../desk.ts';

function limitText(limit: LimitDecision): string {
  return (
    `"allowed":${limit.allowed},"policy":${JSON.stringify(limit.policy)},` +
    `"key":${JSON.stringify(limit.key)},"cost":${limit.cost},"limit":${limit.limit},` +
    `"remaining":${limit.remaining},"retryAfterMs":${limit.retryAfterMs},` +
    `"resetAfterMs":${limit.resetAfterMs},"atMs":${limit.atMs}`
  );
}

function quoteText(quote: Quote): string {
  const own = limitText(quote);
  const { limits, degraded, cached, atomic } = quote;
  const all = limits.length === 1 ? `{${own}}` : limits.map((each) => `{${limitText(each)}}`);
  let text = `${own},"limits":[${all}]`;
  if (degraded !== undefined) text += `,"degraded":${JSON.stringify(degraded)}`;
  if (cached !== undefined) text += ',"cached":true';
  if (atomic !== undefined) text += ',"atomic":false';
  return text;
}

/** The decision of the enforced limits, what those in shadow say, and the receipt. */
export function verdictText(verdict: Verdict, checkId: string | undefined): string {
  const { quote, shadow } = verdict;
  let text = quote === undefined ? '{"allowed":true,"limits":[]' : `{${quoteText(quote)}`;
  if (shadow.length > 0) {
    text += `,"shadow":[${shadow.map((each) => `{${limitText(each)}}`).join(',')}]`;
  }
  const receipt = receiptOf(verdict, checkId);
  if (receipt !== undefined) text += `,"receipt":${JSON.stringify(receipt)}`;
  return `${text}}`;
}
