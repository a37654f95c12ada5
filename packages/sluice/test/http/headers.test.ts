import { describe, expect, it } from 'vitest';
import type { HeaderReport, LimitReport } from '../../src/http/header-report.ts';
import { type HeaderForm, headerForms, retryAfter } from '../../src/http/headers.ts';
import { encodeName } from '../../src/http/structured-fields.ts';

const burst: LimitReport = {
  policy: 'burst',
  allowed: true,
  limit: 100,
  remaining: 50,
  retryAfterMs: 0,
  resetAfterMs: 30_000,
  windowMs: 60_000,
};
const daily: LimitReport = {
  ...burst,
  policy: 'daily',
  limit: 1000,
  remaining: 900,
  resetAfterMs: 4_000_000,
  windowMs: 86_400_000,
};
const spent = { allowed: false, remaining: 0 } as const;

const AT_MS = 1_745_000_100_250;

/** Builds a report as a check does: denied if an enforced limit denies. */
function report(...limits: LimitReport[]): HeaderReport {
  const violated = limits.filter((limit) => !limit.allowed && !limit.shadow);
  return {
    allowed: violated.length === 0,
    retryAfterMs: Math.max(0, ...violated.map(({ retryAfterMs }) => retryAfterMs)),
    atMs: AT_MS,
    limits,
  };
}

const sent = (form: HeaderForm, about: HeaderReport) =>
  Object.fromEntries(headerForms[form](about));
const rateLimit = (...limits: LimitReport[]) => sent('draft', report(...limits)).RateLimit;
const policy = (...limits: LimitReport[]) => sent('draft', report(...limits))['RateLimit-Policy'];

describe('the current draft', () => {
  it('the current draft lists each policy with quota, window and remaining', () => {
    expect(headerForms.draft(report(burst, daily))).toEqual([
      ['RateLimit-Policy', '"burst";q=100;w=60, "daily";q=1000;w=86400'],
      ['RateLimit', '"burst";r=50;t=30, "daily";r=900;t=4000'],
    ]);
  });

  it('the current draft has the retry time of each violated limit', () => {
    const first = { ...burst, ...spent, retryAfterMs: 5001, resetAfterMs: 59_000 };
    const second = { ...daily, ...spent, retryAfterMs: 70_000 };
    expect(rateLimit(first, second)).toBe('"burst";r=0;t=6, "daily";r=0;t=70');
  });

  it('the current draft omits the reset of an unviolated limit if another one denies', () => {
    const first = { ...burst, ...spent, retryAfterMs: 5001 };
    expect(rateLimit(first, daily)).toBe('"burst";r=0;t=6, "daily";r=900');
  });

  it('the current draft rounds times up and remaining down', () => {
    expect(rateLimit({ ...burst, remaining: 7.9, resetAfterMs: 1 })).toBe('"burst";r=7;t=1');
    expect(rateLimit({ ...burst, resetAfterMs: 1000 })).toBe('"burst";r=50;t=1');
    expect(rateLimit({ ...burst, resetAfterMs: 1001 })).toBe('"burst";r=50;t=2');
    expect(rateLimit({ ...burst, resetAfterMs: 0 })).toBe('"burst";r=50;t=0');
  });

  it.each([
    [1, 1],
    [999, 1],
    [1000, 1],
    [1001, 2],
    [3_153_600_000_000, 3_153_600_000],
  ])('the current draft shows a window of %d ms as %d s', (windowMs, seconds) => {
    expect(policy({ ...burst, windowMs })).toBe(`"burst";q=100;w=${seconds}`);
  });

  it('the current draft rounds one millisecond up for large numbers too', () => {
    for (const seconds of [8_796_093_022_208, 9_007_199_254_740]) {
      expect(rateLimit({ ...burst, resetAfterMs: seconds * 1000 })).toMatch(`t=${seconds}`);
      expect(rateLimit({ ...burst, resetAfterMs: seconds * 1000 + 1 })).toMatch(`t=${seconds + 1}`);
    }
  });

  it('the current draft limits numbers to the 15 digits of structured fields', () => {
    const most = 999_999_999_999_999;
    const limit = Number.MAX_SAFE_INTEGER;
    const huge = { ...burst, limit, remaining: limit, resetAfterMs: 1e30, windowMs: Infinity };
    expect(policy(huge)).toBe(`"burst";q=${most};w=${most}`);
    expect(rateLimit(huge)).toBe(`"burst";r=${most};t=${most}`);
  });

  it.each([Number.NaN, -1, -Infinity])(
    'the current draft sends the invalid number %d as 0',
    (wrong) => {
      const broken = { ...burst, limit: wrong, remaining: wrong, resetAfterMs: wrong };
      expect(policy({ ...broken, windowMs: wrong })).toBe('"burst";q=0;w=1');
      expect(rateLimit(broken)).toBe('"burst";r=0;t=0');
    },
  );

  it('the current draft omits shadow limits, also if they would deny', () => {
    const watched = { ...daily, ...spent, retryAfterMs: 9000, shadow: true };
    expect(headerForms.draft(report(watched, burst))).toEqual(headerForms.draft(report(burst)));
    expect(retryAfter(report(watched, burst))).toBeUndefined();
  });

  it('the current draft sends no header rather than an empty list', () => {
    const watched = { ...burst, shadow: true };
    for (const form of Object.values(headerForms)) {
      expect(form(report())).toEqual([]);
      expect(form(report(watched))).toEqual([]);
    }
  });
});

describe('the name of a policy', () => {
  it.each([
    ['burst', '"burst"'],
    ['', '""'],
    ['two words, one=name;x', '"two words, one=name;x"'],
    ['say "hi"', '"say \\"hi\\""'],
    ['back\\slash', '"back\\\\slash"'],
    ['100%', '"100%25"'],
    ['täglich', '"t%C3%A4glich"'],
    ['日', '"%E6%97%A5"'],
    ['🚰', '"%F0%9F%9A%B0"'],
    ['a\r\nSet-Cookie: x', '"a%0D%0ASet-Cookie: x"'],
    ['\0\x7f', '"%00%7F"'],
    ['\ud83d', '"%ED%A0%BD"'],
    ['\udeb0\ud83d', '"%ED%BA%B0%ED%A0%BD"'],
  ])('the policy name %j is sent as %s', (name, wire) => {
    expect(policy({ ...burst, policy: name })).toBe(`${wire};q=100;w=60`);
    expect(rateLimit({ ...burst, policy: name })).toBe(`${wire};r=50;t=30`);
  });

  it('distinct policy names stay distinct', () => {
    const names = ['ä', '%C3%A4', '%c3%a4', '%25C3%25A4', 'Ã¤', 'a\u0308', '\ufffd', '\ud800'];
    expect(new Set(names.map(encodeName)).size).toBe(names.length);
  });
});

describe('draft 7', () => {
  it('draft 7 lists unnamed policies and the limit with the least remaining', () => {
    expect(headerForms['draft-7'](report(burst, daily))).toEqual([
      ['RateLimit-Policy', '100;w=60, 1000;w=86400'],
      ['RateLimit', 'limit=100, remaining=50, reset=30'],
    ]);
  });

  it('draft 7 shows the limit with the longest wait if denied', () => {
    const first = { ...burst, ...spent, retryAfterMs: 5001 };
    const second = { ...daily, allowed: false, remaining: 3, retryAfterMs: 70_000 };
    const both = report(first, second);
    expect(sent('draft-7', both).RateLimit).toBe('limit=1000, remaining=3, reset=70');
    expect(sent('draft-7', report(first, { ...daily, remaining: 0 })).RateLimit).toBe(
      'limit=100, remaining=0, reset=6',
    );
  });

  it('draft 7 shows the first of equal limits', () => {
    const same = { ...daily, remaining: burst.remaining };
    expect(sent('draft-7', report(burst, same)).RateLimit).toMatch(/^limit=100,/);
    expect(sent('draft-7', report(same, burst)).RateLimit).toMatch(/^limit=1000,/);
    const denied = [burst, daily].map((each) => ({ ...each, ...spent, retryAfterMs: 10 }));
    expect(sent('draft-7', report(...denied)).RateLimit).toMatch(/^limit=100,/);
  });

  it('draft 7 shows only the longest window of policies with the same quota', () => {
    const hourly = { ...burst, policy: 'hourly', windowMs: 3_600_000 };
    const minutely = { ...burst, policy: 'minutely' };
    const policies = sent('draft-7', report(burst, daily, hourly, minutely))['RateLimit-Policy'];
    expect(policies).toBe('100;w=3600, 1000;w=86400');
  });

  it('draft 7 resets at the retry time if denied without a violated limit', () => {
    const strange = { ...report(burst), allowed: false, retryAfterMs: 2500 };
    expect(sent('draft-7', strange).RateLimit).toBe('limit=100, remaining=50, reset=3');
    expect(retryAfter(strange)).toEqual(['Retry-After', '3']);
    expect(sent('draft', strange).RateLimit).toBe('"burst";r=50');
  });
});

describe('draft 6 and the legacy form', () => {
  it('draft 6 has a header for each number', () => {
    expect(headerForms['draft-6'](report(daily, burst))).toEqual([
      ['RateLimit-Policy', '1000;w=86400, 100;w=60'],
      ['RateLimit-Limit', '100'],
      ['RateLimit-Remaining', '50'],
      ['RateLimit-Reset', '30'],
    ]);
  });

  it('the legacy form has the reset in seconds since the epoch, rounded up', () => {
    expect(headerForms.legacy(report(daily, burst))).toEqual([
      ['X-RateLimit-Limit', '100'],
      ['X-RateLimit-Remaining', '50'],
      ['X-RateLimit-Reset', '1745000131'],
    ]);
    const denied = { ...burst, ...spent, retryAfterMs: 750 };
    expect(sent('legacy', report(denied))['X-RateLimit-Reset']).toBe('1745000101');
    expect(sent('legacy', report({ ...denied, retryAfterMs: 751 }))['X-RateLimit-Reset']).toBe(
      '1745000102',
    );
  });
});

describe('Retry-After', () => {
  it.each([
    [1, '1'],
    [999, '1'],
    [1000, '1'],
    [1001, '2'],
    [86_400_000, '86400'],
    [Infinity, '999999999999999'],
  ])('Retry-After for a wait of %d ms is %s', (retryAfterMs, value) => {
    const denied = report({ ...burst, ...spent, retryAfterMs });
    expect(retryAfter(denied)).toEqual(['Retry-After', value]);
  });

  it('Retry-After is at least 1, so that clients do not retry in a loop', () => {
    expect(retryAfter({ ...report(), allowed: false })).toEqual(['Retry-After', '1']);
    const unknown = { ...report(), allowed: false, retryAfterMs: Number.NaN };
    expect(retryAfter(unknown)).toEqual(['Retry-After', '1']);
  });

  it('Retry-After is the longest wait of all violated limits', () => {
    const first = { ...burst, ...spent, retryAfterMs: 5001 };
    const second = { ...daily, ...spent, retryAfterMs: 2000 };
    const low = { ...report(first, second), retryAfterMs: 1 };
    const missing = { ...report(second, first), retryAfterMs: Number.NaN };
    expect(retryAfter(low)).toEqual(['Retry-After', '6']);
    expect(retryAfter(missing)).toEqual(['Retry-After', '6']);
  });

  it('Retry-After is not sent if allowed or with the form `none`', () => {
    const denied = report({ ...burst, ...spent, retryAfterMs: 5000 });
    expect(retryAfter(report(burst))).toBeUndefined();
    expect(retryAfter(denied, 'none')).toBeUndefined();
    expect(retryAfter(denied, 'legacy')).toEqual(['Retry-After', '5']);
    expect(headerForms.none(denied)).toEqual([]);
  });
});
