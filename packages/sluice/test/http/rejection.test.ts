import { describe, expect, it } from 'vitest';
import type { Degraded } from '../../src/decision.ts';
import type { HeaderReport, LimitReport } from '../../src/http/header-report.ts';
import { rejection } from '../../src/http/rejection.ts';
import { type CheckResult, createLimiter, ManualClock, SluiceError } from '../../src/index.ts';

const limit: LimitReport = {
  policy: 'burst',
  allowed: false,
  limit: 100,
  remaining: 0,
  retryAfterMs: 5001,
  resetAfterMs: 30_000,
  windowMs: 60_000,
};
const denied = (...limits: LimitReport[]): HeaderReport => ({
  allowed: false,
  retryAfterMs: Math.max(0, ...limits.map(({ retryAfterMs }) => retryAfterMs)),
  atMs: 1_745_000_100_000,
  limits,
});

const TYPES = 'https://iana.org/assignments/http-problem-types';

describe('rejection of a denied request', () => {
  it('the rejection of a denied request has status 429 and the violated policies', () => {
    const daily = { ...limit, policy: 'daily', allowed: true, retryAfterMs: 0 };
    const hourly = { ...limit, policy: 'hourly', retryAfterMs: 20 };
    const { status, contentType, body } = rejection({ report: denied(limit, daily, hourly) });
    expect({ status, contentType }).toEqual({
      status: 429,
      contentType: 'application/problem+json',
    });
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#quota-exceeded`,
      title: 'Quota Exceeded',
      status: 429,
      'violated-policies': ['burst', 'hourly'],
      'retry-after-ms': 5001,
    });
  });

  it('the body of a rejection has its members in a fixed order', () => {
    expect(rejection({ report: denied(limit), instance: '/orders/7' }).body).toBe(
      `{"type":"${TYPES}#quota-exceeded","title":"Quota Exceeded","status":429,` +
        '"instance":"/orders/7","violated-policies":["burst"],"retry-after-ms":5001}',
    );
  });

  it('a rejection does not contain shadow limits', () => {
    const watched = { ...limit, policy: 'planned', retryAfterMs: 90_000, shadow: true };
    const report = { ...denied(watched, limit), retryAfterMs: limit.retryAfterMs };
    expect(JSON.parse(rejection({ report }).body)).toMatchObject({
      'violated-policies': ['burst'],
      'retry-after-ms': 5001,
    });
  });

  it('a rejection contains policy names unencoded', () => {
    const names = ['täglich', '100%', '"quoted"\\', 'a\r\nb', '\ud83d', '</script>'];
    const report = denied(...names.map((policy) => ({ ...limit, policy })));
    expect(JSON.parse(rejection({ report }).body)['violated-policies']).toEqual(names);
  });

  it('a rejection omits an unknown wait', () => {
    for (const retryAfterMs of [0, -1, Number.NaN, Infinity]) {
      const { status, body } = rejection({ report: denied({ ...limit, retryAfterMs }) });
      expect(status).toBe(429);
      expect(JSON.parse(body)).not.toHaveProperty('retry-after-ms');
    }
  });

  it('a rejection does not contain the key', () => {
    const clock = new ManualClock(1_745_000_100_000);
    const limiter = createLimiter({ policies: { burst: '1/1m' }, clock });
    limiter.checkSync('burst', 'alice@example.org');
    // An adapter may pass the limits of the decision, which contain the key.
    const { allowed, retryAfterMs, atMs, limits } = limiter.checkSync('burst', 'alice@example.org');
    const withWindows = limits.map((each) => ({ ...each, windowMs: 60_000 }));
    const report = { allowed, retryAfterMs, atMs, limits: withWindows };
    const { body } = rejection({ report });
    expect(body).toContain('"burst"');
    expect(body).not.toContain('alice');
  });
});

describe('rejection without a decision of the store', () => {
  const outage: Degraded = { reason: 'timeout', action: 'deny' };

  it('a rejection without a store decision has status 503 and the same members', () => {
    const { status, contentType, body } = rejection({ report: denied(limit), degraded: outage });
    expect({ status, contentType }).toEqual({
      status: 503,
      contentType: 'application/problem+json',
    });
    expect(JSON.parse(body)).toEqual({
      type: `${TYPES}#temporary-reduced-capacity`,
      title: 'Temporary Reduced Capacity',
      status: 503,
      'violated-policies': ['burst'],
      'retry-after-ms': 5001,
    });
  });

  it('a rejection has status 503 and no violated policies if the store threw', () => {
    for (const input of [{}, { report: undefined }, { degraded: outage }]) {
      const { status, body } = rejection(input);
      expect(status).toBe(503);
      expect(JSON.parse(body)).toEqual({
        type: `${TYPES}#temporary-reduced-capacity`,
        title: 'Temporary Reduced Capacity',
        status: 503,
        'violated-policies': [],
      });
    }
  });

  it.each(['timeout', 'error', 'open', 'overload'] as const)(
    'a rejection has status 429 if a local limit denied (%s)',
    (reason) => {
      const report = denied(limit);
      expect(rejection({ report, degraded: { reason, action: 'local' } }).status).toBe(429);
      expect(rejection({ report, degraded: { reason, action: 'deny' } }).status).toBe(503);
      expect(rejection({ report, degraded: undefined }).status).toBe(429);
    },
  );

  it('a rejection does not contain the reason of the failure', () => {
    const { body } = rejection({ report: denied(limit), degraded: outage });
    expect(body).not.toMatch(/timeout|deny|store|degraded/);
  });
});

describe('rejection of an allowed decision', () => {
  it('rejection of an allowed decision throws a coded error', () => {
    const report = { ...denied(), allowed: true };
    const attempts = [
      { report },
      { report, degraded: { reason: 'open', action: 'deny' } },
    ] as const;
    for (const input of attempts) {
      let thrown: unknown;
      try {
        rejection(input);
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(SluiceError);
      expect(thrown).toMatchObject({ code: 'ERR_INVALID_OPTION' });
    }
  });
});

it('rejection accepts the degraded property of a decision', () => {
  const result = { degraded: { reason: 'open', action: 'deny' } } as Pick<CheckResult, 'degraded'>;
  expect(rejection({ report: denied(limit), degraded: result.degraded }).status).toBe(503);
});
