import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  COMPARED,
  htmlReport,
  type PlanResult,
  type ReportedResult,
  type SuggestResult,
} from '../../src/index.ts';
import { niceEnd } from '../../src/report/scale.ts';
import { explainResult, planResult, results, suggestResult } from './results.ts';

describe.each(Object.keys(results))('the HTML report of %s', (name) => {
  const page = htmlReport(results[name]());

  test(`the HTML report of ${name} contains no external references`, () => {
    const tags = page.match(/<[^>]+>/g)!;
    expect(tags.length).toBeGreaterThan(50);
    const strays = tags.filter((tag) =>
      /[ /](?:src|href|style|on\w+)=|^<(?:script|link)/i.test(tag),
    );
    expect(strays).toEqual([]);
    // A given address is shown as text.
    const withoutAddresses = page.replaceAll(/>[^<]*http:\/\/127\.0\.0\.1[^<]*</g, '><');
    expect(/url\(|@import|:\/\//.exec(withoutAddresses)).toBeNull();
  });

  test(`the Content-Security-Policy of the report of ${name} allows only its own style`, () => {
    const [, policy] = /Content-Security-Policy" content="([^"]*)"/.exec(page)!;
    const [, style] = /<style>([\s\S]*?)<\/style>/.exec(page)!;
    const hash = createHash('sha256').update(style).digest('base64');
    expect(policy.split('; ')).toEqual([
      "default-src 'none'",
      `style-src 'sha256-${hash}'`,
      "base-uri 'none'",
      "form-action 'none'",
    ]);
  });

  test(`the HTML report of ${name} shows names as text and no NaN`, () => {
    expect(/<img|<script|onerror=alert\(1\)>/i.exec(page)).toBeNull();
    expect(/NaN|Infinity|undefined/.exec(page)).toBeNull();
  });

  test(`the HTML report of the same result of ${name} is the same text`, () => {
    expect(htmlReport(results[name]()) === page).toBe(true);
  });
});

test('the HTML report of a plan shows the log and its problems', () => {
  const log = { paths: ['-', '/var/log/<a>.log'], format: 'combined', unreadable: 3, late: 1 };
  const threshold = {
    flag: '--max-denied-clients',
    most: '0.1%',
    what: 'clients',
    denied: 2,
    of: 9,
  };
  const page = htmlReport({
    ...planResult(),
    log,
    missingHeaders: ['x-api-key'],
    thresholds: [{ ...threshold, ok: false }],
  });
  expect(page.includes('standard input'), 'standard input').toBe(true);
  expect(page.includes('/var/log/&lt;a&gt;.log'), '/var/log/&lt;a&gt;.log').toBe(true);
  expect(page.includes('3 lines unreadable.'), '3 lines unreadable.').toBe(true);
  expect(
    page.includes('1 line out of order, replayed with a later time.'),
    '1 line out of order, replayed with a later time.',
  ).toBe(true);
  expect(
    page.includes('No request in the log has x-api-key'),
    'No request in the log has x-api-key',
  ).toBe(true);
  expect(
    page.includes('<span class="bad">exceeded</span>, 2 of 9 clients (22.2%) denied.'),
    '<span class="bad">exceeded</span>, 2 of 9 clients (22.2%) denied.',
  ).toBe(true);
});

describe('large reports', () => {
  test('a report of 2,000 clients with the longest names is below 1 MB', () => {
    const result = planResult();
    const name = '<'.repeat(3000);
    const client = { ...result.topClients[0], client: name };
    const many = { ...client, policies: named(name, 50), routes: named(name, 3) };
    const clients = new Array(2000).fill(many);
    const series = new Array(240).fill(123_456_789);
    const large: PlanResult = {
      ...result,
      topClients: clients,
      topRoutes: named(name, 2000),
      timeline: {
        startMs: 1_767_225_600_000,
        bucketMs: 604_800_000,
        series: { requests: series, denied: series, shadow: series, current: series },
      },
      against: {
        ...result.against!,
        newlyDeniedClients: clients,
        noLongerDeniedClients: clients,
      },
    };
    const page = htmlReport(large);
    expect(Buffer.byteLength(page)).toBeLessThan(1_000_000);
    expect(page.includes('and 1,940 more')).toBe(true);
  });

  const named = (name: string, count: number) => new Array(count).fill({ name, count: 1_000_000 });

  test('a report of a suggestion of all windows with the most points is below 1 MB', () => {
    const result = suggestResult();
    const curve = Array.from({ length: 240 }, (_, at) => ({ limit: at + 1, clients: 1e6 - at }));
    const windows = new Array(8).fill({ ...result.windows[0], curve });
    const large: SuggestResult = { ...result, windows };
    expect(Buffer.byteLength(htmlReport(large))).toBeLessThan(1_000_000);
  });
});

describe('explanations of the maximum size', () => {
  const longest = '<'.repeat(3000);
  const bytesOf = (result: ReportedResult): number => Buffer.byteLength(htmlReport(result));

  test.each(COMPARED)(
    'a report of an explanation of 20,000 requests of %s is below 1 MB',
    (algorithm) => {
      const options = { everyMs: 5, calls: 20_000, limit: 9000, windowMs: 3_600_000 };
      const explained = explainResult(algorithm, { ...options, atMs: FAR_MS });
      const many = Array.from({ length: 20_000 }, (_, call) => ({
        timeMs: explained.atMs - 300 * call,
        allowed: call % 3 > 0,
      }));
      const large = { ...explained, key: longest, policy: longest, requests: many.reverse() };
      expect(bytesOf(large)).toBeLessThan(1_000_000);
    },
  );
});

const FAR_MS = Date.UTC(2026, 9, 10, 13);

test('a plan without requests has an HTML report', () => {
  const none: PlanResult = {
    ...planResult(),
    requests: 0,
    clients: 0,
    firstMs: undefined,
    lastMs: undefined,
    denied: { requests: 0, clients: 0, ordinaryClients: 0 },
    topClients: [],
    topRoutes: [],
    timeline: {
      startMs: 0,
      bucketMs: 1000,
      series: { requests: [], denied: [], shadow: [], current: [] },
    },
  };
  const page = htmlReport(none);
  expect(page.includes('The log has no requests'), 'The log has no requests').toBe(true);
  expect(page.includes('No data.'), 'No data.').toBe(true);
  expect(/NaN|Infinity|undefined/.exec(page)).toBeNull();
});

test('the chart scales of a report end at round numbers', () => {
  expect([0, 1, 7, 11, 330, 401, 999_999].map(niceEnd)).toEqual([
    ...[1, 1, 8, 20, 400, 500, 1_000_000],
  ]);
});

test('a long path beside the numbers of a client is cut to 40 characters', () => {
  const result = planResult();
  const routes = [{ name: `GET /${'long-'.repeat(60)}`, count: 9 }];
  const topClients = result.topClients.map((each) => ({ ...each, routes }));
  const page = htmlReport({ ...result, topClients, topRoutes: [] });
  expect(page).toContain(`<div>${routes[0].name.slice(0, 39)}… `);
  expect(page).not.toContain(routes[0].name.slice(0, 41));
});
