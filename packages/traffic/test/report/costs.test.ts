/** Reports of logs with costs: the source of costs and the unit of the numbers. */
import { definePolicy } from 'sluice';
import { describe, expect, test } from 'vitest';
import {
  COMPARED,
  Comparison,
  describeExplanation,
  type Entry,
  Explainer,
  htmlReport,
  Planner,
  type ReportedResult,
  rulesByClient,
  Suggester,
} from '../../src/index.ts';
import { entriesOf, madeTraffic, withCosts } from '../replay/traffic.ts';
import { NASTY } from './results.ts';

const plain = madeTraffic(4, 1500, 400);
const keyOf = ({ client }: Entry): string => client;
const LIMIT = 20;

/** One of each kind, of the same traffic. */
function resultsOf(entries: readonly Entry[]): Readonly<Record<string, ReportedResult>> {
  const policy = definePolicy('minute', { limit: LIMIT, window: '1m' });
  const planner = new Planner({ next: rulesByClient([policy]), clientOf: keyOf });
  planner.add(entries);
  const comparison = new Comparison({ limit: LIMIT, windowMs: 60_000, keyOf });
  comparison.add(entries);
  const suggester = new Suggester({ keyOf });
  suggester.survey(entries);
  suggester.choose();
  suggester.tryLimits(entries);
  const explainer = new Explainer({ policy, keyOf, key: entries[0].client });
  explainer.add(entries);
  return {
    plan: planner.result(),
    compare: comparison.result(),
    suggest: suggester.result(),
    explain: explainer.result()!,
  };
}

const costly = resultsOf(entriesOf(withCosts(plain, 9)));
const cheap = resultsOf(entriesOf(plain));
const KINDS = Object.keys(costly);
const log = { paths: ['a.csv'], format: 'csv', unreadable: 5, late: 0 };
const costs = { columns: ['tokens'], refused: 2, sample: '0.5' };

describe.each(KINDS)('the report of %s with costs', (kind) => {
  test(`the report of ${kind} states the source of costs and the invalid costs`, () => {
    const page = htmlReport({ ...costly[kind], log: { ...log, costs } } as ReportedResult);
    expect(page).toContain('Costs from the column <span class="name">tokens</span>.');
    expect(page).toContain('2 lines unreadable: the cost is not a positive integer, such as');
    expect(page).toContain('5 lines unreadable.');
    expect(/NaN|Infinity|undefined/.exec(page)).toBeNull();
  });

  test(`the report of ${kind} shows column names and costs as text`, () => {
    const nasty = { columns: [NASTY], refused: 1, sample: NASTY };
    const page = htmlReport({ ...costly[kind], log: { ...log, costs: nasty } } as ReportedResult);
    expect(page).not.toContain(NASTY);
    expect(page).toContain('&lt;img');
  });

  test(`the report of ${kind} states that no request has the named cost column`, () => {
    const none = { columns: [], refused: 0 };
    const page = htmlReport({ ...cheap[kind], log: { ...log, costs: none } } as ReportedResult);
    expect(page).toContain('No request has a cost, so each costs 1.');
  });

  test(`the report of ${kind} does not mention costs if the log has none`, () => {
    const page = htmlReport({ ...cheap[kind], log } as ReportedResult);
    expect(/\bcosts?\b/i.exec(page.replace(/<style>[\s\S]*<\/style>/, ''))).toBeNull();
  });
});

test.each([
  ['plan', 'id="requests-above-limit"', 'Limits count costs'],
  ['compare', 'id="costs"', 'The limit counts cost.'],
  ['suggest', '>cost<', 'are in units of cost'],
  ['explain', 'Its height is the cost.', '>cost<'],
])('the report of %s with costs contains %s', (kind, ...words) => {
  const page = htmlReport(costly[kind]);
  for (const each of words) expect(page).toContain(each);
});

describe('the description of costs', () => {
  const explained = (given: readonly number[], algorithm: (typeof COMPARED)[number]) => {
    const policy = definePolicy('', { limit: 10, window: '1m', algorithm });
    const explainer = new Explainer({ policy, keyOf, key: 'a' });
    const noonMs = Date.UTC(2026, 9, 10, 12);
    const made = given.map((cost, at) => ({ client: 'a', timeMs: noonMs + 1000 * at, cost }));
    explainer.add(entriesOf(made));
    return explainer.result()!;
  };

  test('an explanation names the entries that must expire before the same cost fits', () => {
    expect(describeExplanation(explained([2, 3, 4, 6], 'sliding-log'))).toMatchObject({
      usedText: '9 of 10 used in the last 1 min',
      sumText: '9 + 6 = 15 > 10',
      freesText: 'oldest 2 entries, of cost 5, expire in 58 s',
    });
    expect(describeExplanation(explained([5, 3, 6], 'sliding-log')).freesText).toBe(
      'oldest entry, of cost 5, expires in 58 s',
    );
  });

  test.each(COMPARED)('a cost above the limit of %s never fits', (algorithm) => {
    const found = explained([3, 11], algorithm);
    expect(describeExplanation(found).freesText).toBe('never: at most 10 fits');
    const page = htmlReport(found);
    expect(page).toContain('>never<');
    expect(page).not.toContain('until the same request fits');
  });
});
