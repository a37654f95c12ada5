/** Headers of random reports: a standard parser and parseRateLimit read the correct values. */
import fc from 'fast-check';
import { parseList } from 'structured-headers';
import { describe, expect, it } from 'vitest';
import type { HeaderReport, LimitReport } from '../../src/http/header-report.ts';
import { type HeaderForm, headerForms, retryAfter } from '../../src/http/headers.ts';
import { parseRateLimit } from '../../src/http/parse-rate-limit.ts';
import { SingleLimitHeaders } from '../../src/http/single-limit-headers.ts';
import { encodeName } from '../../src/http/structured-fields.ts';
import { RUNS } from './traces.ts';

const TIMEOUT_MS = 600_000;
const LARGEST = 999_999_999_999_999;
const MOST = Number.MAX_SAFE_INTEGER;
/** Below 10^8 seconds a time cannot be distinguished from a duration. */
const AT_MS = { min: 100_000_000_000, max: 4_000_000_000_000 };

function holds<T>(name: string, arbitrary: fc.Arbitrary<T>, property: (value: T) => void): void {
  const run = () => fc.assert(fc.property(arbitrary, property), { numRuns: RUNS });
  it(name, run, TIMEOUT_MS);
}

const names = fc.oneof(
  fc.constantFrom('burst', 'daily', 'a"b\\c', '100%', '%25', 'täglich', '日🚰', 'a, b;q=1', ''),
  fc.string({ unit: 'binary', maxLength: 12 }),
  // Any UTF-16, also halves of pairs.
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
    .map((units) => String.fromCharCode(...units)),
);

const waits = fc.oneof(
  fc.integer({ min: 1, max: 3000 }),
  fc.integer({ min: 1, max: 200_000_000 }),
  fc.constantFrom(1, 999, 1000, 1001, 59_999, 60_000, 3_153_600_000_000),
  fc.maxSafeNat().map((ms) => Math.max(1, ms)),
);

const amounts = fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.integer({ min: 1, max: MOST }));

const limits: fc.Arbitrary<LimitReport> = fc
  .record({
    policy: names,
    allowed: fc.boolean(),
    limit: amounts,
    share: fc.double({ min: 0, max: 1, noNaN: true }),
    retryAfterMs: waits,
    resetAfterMs: fc.oneof(fc.constant(0), waits),
    windowMs: waits,
    shadow: fc.option(fc.boolean(), { nil: undefined }),
  })
  .map(({ share, shadow, retryAfterMs, ...rest }) => ({
    ...rest,
    remaining: Math.min(rest.limit, Math.floor(rest.limit * share)),
    retryAfterMs: rest.allowed ? 0 : retryAfterMs,
    ...(shadow === undefined ? {} : { shadow }),
  }));

const shown = ({ limits: all }: HeaderReport) => all.filter(({ shadow }) => !shadow);
const violated = (report: HeaderReport) => shown(report).filter(({ allowed }) => !allowed);
const longest = (all: readonly LimitReport[]) =>
  Math.max(0, ...all.map(({ retryAfterMs }) => retryAfterMs));

const reports: fc.Arbitrary<HeaderReport> = fc
  .record({ atMs: fc.integer(AT_MS), limits: fc.array(limits, { maxLength: 6 }) })
  .map((parts) => {
    const denying = violated({ ...parts, allowed: false, retryAfterMs: 0 });
    return { ...parts, allowed: denying.length === 0, retryAfterMs: longest(denying) };
  });

/** Rounds up to seconds with BigInt, so that the calculation of the test is exact. */
const secondsUp = (ms: number) => Number((BigInt(ms) + 999n) / 1000n);
const windowOf = ({ windowMs }: LimitReport) => Math.max(1, secondsUp(windowMs));
const capped = (amount: number) => Math.min(amount, LARGEST);

const sent = (form: HeaderForm, report: HeaderReport) =>
  new Map(headerForms[form](report).map(([name, value]) => [name.toLowerCase(), value]));

function read(form: HeaderForm, report: HeaderReport) {
  const headers = sent(form, report);
  const wait = retryAfter(report, form);
  if (wait !== undefined) headers.set(wait[0].toLowerCase(), wait[1]);
  return parseRateLimit(headers, { nowMs: report.atMs });
}

function isWellFormed(name: string): boolean {
  try {
    return encodeURIComponent(name) !== undefined;
  } catch {
    return false;
  }
}
/** Half a surrogate pair cannot be decoded, so such a name stays as it was sent. */
const readName = (name: string) => (isWellFormed(name) ? name : encodeName(name));

/** Returns the reset of the current draft, in seconds. */
function untilMore(limit: LimitReport, report: HeaderReport): number | undefined {
  if (!limit.allowed) return secondsUp(limit.retryAfterMs);
  return report.allowed ? secondsUp(limit.resetAfterMs) : undefined;
}

/** Returns the decisive limit: the least remaining, or the longest wait if denied. */
function decisive(report: HeaderReport): LimitReport {
  const [first, ...others] = report.allowed ? shown(report) : violated(report);
  const isBefore = (a: LimitReport, b: LimitReport) =>
    report.allowed ? a.remaining < b.remaining : a.retryAfterMs > b.retryAfterMs;
  return others.reduce((best, each) => (isBefore(each, best) ? each : best), first);
}

const namelessPolicies = (report: HeaderReport) => {
  const quotas = [...new Set(shown(report).map(({ limit }) => capped(limit)))];
  return quotas.map((limit) => {
    const same = shown(report).filter((each) => capped(each.limit) === limit);
    return { limit, windowMs: 1000 * Math.max(...same.map(windowOf)) };
  });
};

const wait = (report: HeaderReport) =>
  report.allowed
    ? {}
    : { retryAfterMs: Math.min(MOST, 1000 * Math.max(1, secondsUp(longest(violated(report))))) };
const ms = (seconds: number) => Math.min(MOST, seconds * 1000);

/** Successive results of one limit. */
const sequences = fc.record({
  policy: names,
  windowMs: waits,
  results: fc.array(limits, { minLength: 1, maxLength: 6 }),
});

describe('SingleLimitHeaders', () => {
  holds(
    'SingleLimitHeaders returns the headers of the general form',
    sequences,
    ({ policy, windowMs, results }) => {
      const draft = new SingleLimitHeaders(policy, windowMs);
      // Each result twice: the second may come from a cache.
      for (const { shadow, ...result } of results.flatMap((each) => [each, each])) {
        const { allowed, retryAfterMs } = result;
        const all = [{ ...result, policy, windowMs }];
        const report = { allowed, retryAfterMs, atMs: AT_MS.min, limits: all };
        const wait = retryAfter(report);
        expect(draft.headersFor(result)).toEqual([
          ...headerForms.draft(report),
          ...(wait ? [wait] : []),
        ]);
      }
    },
  );
});

describe('the current draft', () => {
  holds(
    'a parser of structured fields reads the values of the report from the current draft',
    reports,
    (r) => {
      const headers = sent('draft', r);
      expect(headers.size).toBe(shown(r).length === 0 ? 0 : 2);
      if (headers.size === 0) return;
      expect(parseList(headers.get('ratelimit-policy')!)).toEqual(
        shown(r).map((limit) => [
          encodeName(limit.policy),
          new Map([
            ['q', capped(limit.limit)],
            ['w', windowOf(limit)],
          ]),
        ]),
      );
      expect(parseList(headers.get('ratelimit')!)).toEqual(
        shown(r).map((limit) => {
          const until = untilMore(limit, r);
          const parameters = new Map([['r', capped(limit.remaining)]]);
          return [
            encodeName(limit.policy),
            until === undefined ? parameters : parameters.set('t', until),
          ];
        }),
      );
    },
  );

  holds('different policies have different encoded names', fc.tuple(names, names), ([a, b]) => {
    expect(encodeName(a) === encodeName(b)).toBe(a === b);
    expect(encodeName(a)).toMatch(/^[\x20-\x7e]*$/);
  });
});

describe('Retry-After', () => {
  holds(
    'Retry-After is never early, at most 1 s late, and never before a `t` parameter',
    reports,
    (r) => {
      const field = retryAfter(r);
      expect(field === undefined).toBe(r.allowed);
      if (field === undefined) return;
      const afterMs = BigInt(field[1]) * 1000n;
      const trueMs = BigInt(longest(violated(r)));
      expect(afterMs >= trueMs && afterMs - trueMs <= 1000n).toBe(true);
      for (const { resetAfterMs = 0 } of read('draft', r).limits) {
        expect(resetAfterMs).toBeLessThanOrEqual(ms(Number(field[1])));
      }
    },
  );
});

describe('parseRateLimit of sent headers', () => {
  holds('parseRateLimit reads what the current draft sends', reports, (r) => {
    const policies = shown(r).map((limit) => ({
      name: readName(limit.policy),
      limit: capped(limit.limit),
      windowMs: ms(windowOf(limit)),
    }));
    const current = shown(r).map((limit) => {
      const until = untilMore(limit, r);
      const remaining = capped(limit.remaining);
      const reset = until === undefined ? {} : { resetAfterMs: ms(until) };
      return { name: readName(limit.policy), remaining, ...reset };
    });
    const form = policies.length === 0 ? 'none' : 'draft';
    expect(read('draft', r)).toEqual({ policies, limits: current, ...wait(r), form });
  });

  holds(
    'parseRateLimit reads what drafts 6 and 7 send',
    fc.tuple(reports, fc.constantFrom('draft-7', 'draft-6')),
    (both) => {
      const [r, form] = both;
      if (shown(r).length === 0) return void expect(sent(form, r).size).toBe(0);
      const { limit, remaining, ...rest } = decisive(r);
      const resetMs = r.allowed ? rest.resetAfterMs : rest.retryAfterMs;
      const resetAfterMs = ms(secondsUp(resetMs));
      expect(read(form, r)).toEqual({
        policies: namelessPolicies(r).map((each) => ({
          ...each,
          windowMs: Math.min(MOST, each.windowMs),
        })),
        limits: [{ limit: capped(limit), remaining: capped(remaining), resetAfterMs }],
        ...wait(r),
        form,
      });
    },
  );

  // Times and durations are distinguished by size, so only recent times are tested.
  const soon = reports.filter((r) => r.limits.every((l) => l.resetAfterMs + l.retryAfterMs < 1e13));
  holds('parseRateLimit reads what the legacy form sends', soon, (r) => {
    if (shown(r).length === 0) return void expect(sent('legacy', r).size).toBe(0);
    const { limit, remaining, ...rest } = decisive(r);
    const resetMs = r.allowed ? rest.resetAfterMs : rest.retryAfterMs;
    const resetAfterMs = secondsUp(r.atMs + resetMs) * 1000 - r.atMs;
    expect(read('legacy', r)).toEqual({
      policies: [],
      limits: [{ limit: capped(limit), remaining: capped(remaining), resetAfterMs }],
      ...wait(r),
      form: 'legacy',
    });
  });

  holds('parseRateLimit finds nothing with the form `none`', reports, (r) => {
    expect(read('none', r)).toEqual({ policies: [], limits: [], form: 'none' });
  });
});

describe('random fields', () => {
  const pieces = fc.constantFrom(
    ...['"a"', '"b\\""', '"', '\\', ';', '; ', 'r', 't', '=', '=1', '=-1', '1', '1.5', ','],
    ...[', ', ' ', '\t', ':aGk=:', ':', '?1', '@1', '%"%c3%a4"', '%"', 'tok', '*', '(', ')', 'R'],
    ...[';r=1', ';t=2', '"c";r=3;t=4', ';r=0', '.', '-', '9'.repeat(15), 'ä', '"x y";r=5, '],
  );
  const wild = fc.array(pieces, { maxLength: 9 }).map((parts) => parts.join(''));
  // Nearly valid text, on which parsers differ: a list with one piece inserted.
  const nearlyValid = fc
    .tuple(fc.array(fc.constantFrom('"a";r=1', '"b";t=2;r=3', '"c";r=4;x')), pieces, fc.nat(30))
    .map(([members, piece, at]) => {
      const text = members.join(', ');
      return text.slice(0, at) + piece + text.slice(at);
    });
  const fields = fc.oneof(wild, nearlyValid);

  /** Returns the limits of the other parser, or undefined if it or the draft rejects the header. */
  function byOtherParser(text: string) {
    let list: ReturnType<typeof parseList>;
    try {
      list = parseList(text.trim());
    } catch {
      return undefined;
    }
    const isCount = (value: unknown) => Number.isInteger(value) && (value as number) >= 0;
    const all = list.map(([name, parameters]) => {
      const remaining = parameters.get('r') as number;
      const seconds = parameters.get('t') as number | undefined;
      const fits = typeof name === 'string' && isCount(remaining);
      if (!fits || (seconds !== undefined && !isCount(seconds))) return undefined;
      return { name, remaining, ...(seconds === undefined ? {} : { resetAfterMs: ms(seconds) }) };
    });
    return all.length === 0 || all.includes(undefined) ? undefined : all;
  }

  holds(
    'parseRateLimit agrees with another parser of structured fields on any text',
    fields,
    (text) => {
      expect(parseRateLimit({ ratelimit: text }).limits).toEqual(byOtherParser(text) ?? []);
    },
  );

  holds(
    'parseRateLimit never throws and returns only safe integers',
    fc.tuple(fc.string({ unit: 'binary' }), fields),
    (two) => {
      for (const text of [...two, two.join(','), `"a";r=1;${two[0]}`]) {
        const { limits: found, retryAfterMs = 0 } = parseRateLimit(() => text, {
          nowMs: AT_MS.min,
        });
        for (const { remaining, resetAfterMs = 0 } of found) {
          for (const number of [remaining, resetAfterMs, retryAfterMs]) {
            expect(Number.isSafeInteger(number) && number >= 0).toBe(true);
          }
        }
      }
    },
  );
});
