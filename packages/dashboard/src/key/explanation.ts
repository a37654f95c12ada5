/** The sum that decides, in words: what counts now, and what makes room. */
import type { KeyReport } from '../api/types.ts';
import { clockText, countText, durationText, windowText } from '../view/format.ts';
import { counterParts, type KeyFacts, tokensAt, usedAt, windowStart } from './key-facts.ts';

export interface KeyExplanation {
  readonly sum: string;
  readonly frees: string;
}

/** `37.4`, `0.35`: no more digits than say something. */
const rounded = (value: number, digits: number): string => String(Number(value.toFixed(digits)));

export function explainKey(facts: KeyFacts, report: KeyReport, nowMs: number): KeyExplanation {
  switch (facts.algorithm) {
    case 'fixed-window':
      return ofWindow(facts, report, nowMs);
    case 'sliding-counter':
      return ofCounter(facts, report, nowMs);
    case 'token-bucket':
      return ofTokens(facts, report, nowMs);
    default:
      return ofLog(facts, report, nowMs);
  }
}

function ofLog(facts: KeyFacts, report: KeyReport, nowMs: number): KeyExplanation {
  const { windowMs, capacity, algorithm, bucketMs } = facts;
  const used = usedAt(facts, report, nowMs);
  const edgeMs = nowMs - windowMs;
  const isBuckets = algorithm === 'sliding-buckets';
  const grain = isBuckets ? `, each as of the end of its bucket of ${windowText(bucketMs)}` : '';
  const isAll = report.entryCount === report.entries.length;
  const oldest = report.entries.find(({ atMs }) => atMs > edgeMs);
  return {
    sum:
      `${countText(used)} of ${countText(capacity)}: ` +
      `all that was admitted in the last ${windowText(windowMs)}${grain}`,
    frees:
      oldest === undefined || !isAll
        ? ''
        : `the oldest, of cost ${countText(oldest.cost)}, leaves in ` +
          durationText(oldest.atMs - edgeMs),
  };
}

function ofWindow(facts: KeyFacts, report: KeyReport, nowMs: number): KeyExplanation {
  const { windowMs, capacity } = facts;
  const used = usedAt(facts, report, nowMs);
  const startMs = windowStart(windowMs, nowMs);
  return {
    sum:
      `${countText(used)} of ${countText(capacity)}: ` +
      `all that was admitted since ${clockText(startMs)}, when the window began`,
    frees: `the next begins in ${durationText(startMs + windowMs - nowMs)}, with nothing in it`,
  };
}

function ofCounter(facts: KeyFacts, report: KeyReport, nowMs: number): KeyExplanation {
  const { current, previous, weight, weighed } = counterParts(facts, report.cells, nowMs);
  return {
    sum:
      `previous ${countText(previous)} × ${weight.toFixed(2)} = ${countText(weighed)}, ` +
      `current ${countText(current)}, together ${countText(current + weighed)} of ` +
      countText(facts.capacity),
    frees:
      previous > 0
        ? 'what is in sight of the previous window shrinks with every millisecond'
        : `the window becomes the previous one in ${durationText(weight * facts.windowMs)}`,
  };
}

function ofTokens(facts: KeyFacts, report: KeyReport, nowMs: number): KeyExplanation {
  const { capacity, limit, windowMs } = facts;
  const tokens = tokensAt(facts, report.cells, nowMs);
  const each = durationText(Number((windowMs / limit).toPrecision(3)));
  return {
    sum: `${rounded(tokens, 1)} of ${countText(capacity)} tokens are there`,
    frees: `${countText(limit)} come back in ${windowText(windowMs)}, one every ${each}`,
  };
}
