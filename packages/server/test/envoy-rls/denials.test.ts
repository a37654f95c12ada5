/** Every denial is counted, logged and listed, also those that no counter causes. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeLog } from '../../src/observe/log.ts';
import { EventReader } from '../http-api/event-reader.ts';
import { valueIn } from '../metric-value.ts';
import { entries, OK, OVER, type RateLimitResponse, type Served, serve } from './client.ts';

const CONFIG = `
domain: shop
descriptors:
  - { key: ten, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: two, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: never, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: quiet, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: soft, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: softer, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
`;

const lines: string[] = [];
let served: Served;
beforeAll(async () => {
  const log = makeLog({ logLevel: 'info' }, { write: (line) => void lines.push(line) });
  served = await serve(CONFIG, { log, settings: { logDenials: 1000 } });
});
afterAll(() => served.close());

let names = 0;
const name = (): string => `name-${names++}`;
const check = (hits: number, ...descriptors: object[]): Promise<RateLimitResponse> =>
  served.client.shouldRateLimit({ domain: 'shop', descriptors, hits_addend: hits });

async function decisions(policy: string, outcome: string): Promise<number> {
  const { text } = await served.running.get('/metrics');
  return valueIn(text, 'sluice_decisions_total', { policy, outcome }) ?? 0;
}

const topKeys = async (policy: string): Promise<readonly string[]> => {
  const { json } = await served.running.get(`/v1/top?policy=${encodeURIComponent(policy)}`);
  return json.keys.map(({ key }: { key: string }) => key);
};

const logged = () => lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'denied');

test('GET /v1/policies lists limits of requests_per_unit: 0', async () => {
  const { json } = await served.running.get('/v1/policies');
  const zero = json.policies.filter(({ limit }: { limit: number }) => limit === 0);
  const common = { windowMs: 60_000, algorithm: 'sliding-log', costs: {}, overrides: 0 };
  expect(zero).toEqual([
    { name: 'shop.never', limit: 0, shadow: false, shadowBy: 'file', ...common },
    { name: 'shop.quiet', limit: 0, shadow: true, shadowBy: 'file', ...common },
  ]);
  expect((await served.running.get('/v1/policies/shop.never')).json).toEqual(zero[0]);
});

interface Denial {
  readonly title: string;
  /** Resolves to the response that is the denial. */
  readonly deny: (user: string) => Promise<RateLimitResponse>;
  readonly policy: string;
  readonly key: (user: string) => string;
  /** Whether a later retry would be denied too. */
  readonly isForever: boolean;
  readonly fields: RegExp;
}

const limit = { requests_per_unit: 0, unit: 2 };
const DENIALS: readonly Denial[] = [
  {
    title: 'requests_per_unit: 0',
    deny: (user) => check(1, entries('never', user)),
    policy: 'shop.never',
    key: (user) => `never:${user}`,
    isForever: true,
    fields: /^"shop.never";q=0;w=60 "shop.never";r=0;t=60$/,
  },
  {
    title: 'a limit of 0 in the request',
    deny: (user) => check(1, { ...entries('never', user), limit }),
    policy: '(request)',
    key: (user) => `shop:never:${user}`,
    isForever: true,
    fields: /^"sluice.override.minute";q=0;w=60 "sluice.override.minute";r=0;t=60$/,
  },
  {
    title: 'a cost above the limit',
    deny: (user) => check(11, entries('ten', user)),
    policy: 'shop.ten',
    key: (user) => `ten:${user}`,
    isForever: true,
    fields: /^"shop.ten";q=10;w=60 "shop.ten";r=10;t=60$/,
  },
  {
    title: 'quota_mode',
    deny: async (user) => {
      const both = [entries('soft', user), entries('softer', user)];
      await check(1, ...both);
      await check(1, ...both);
      return check(1, ...both);
    },
    policy: 'shop.softer',
    key: (user) => `softer:${user}`,
    isForever: false,
    fields:
      /^"shop.soft";q=1;w=60, "shop.softer";q=2;w=60 "shop.soft";r=0;t=\d+, "shop.softer";r=0/,
  },
  {
    title: 'hits of 0 at an exhausted limit',
    deny: async (user) => {
      await check(2, entries('two', user));
      return check(1, { ...entries('two', user), hits_addend: { value: 0 } });
    },
    policy: 'shop.two',
    key: (user) => `two:${user}`,
    isForever: false,
    fields: /^"shop.two";q=2;w=60 "shop.two";r=0;t=\d+$/,
  },
];

describe.each(DENIALS)('denial by $title', ({ title, deny, policy, key, isForever, fields }) => {
  test(`a denial by ${title} is counted once and listed in the top keys`, async () => {
    const user = name();
    const before = await decisions(policy, 'denied');
    expect((await deny(user)).overall_code).toBe(OVER);
    expect(await decisions(policy, 'denied')).toBe(before + 1);
    expect(await topKeys(policy)).toContain(key(user));
  });

  test(`a denial by ${title} is logged, with the wait if it is finite`, async () => {
    const user = name();
    await deny(user);
    const own = logged().filter((line) => line.key.endsWith(`:${user}`));
    expect(own).toHaveLength(1);
    expect('retryAfterMs' in own[0]).toBe(!isForever);
  });

  test(`a denial by ${title} is in the event stream`, async () => {
    const user = name();
    const reader = await EventReader.greeted(served.running.url, `/v1/events?key=*${user}`);
    await deny(user);
    const ofKey = () => reader.denials.filter((each) => each.key === key(user));
    await reader.until(() => ofKey().length > 0);
    const [found] = ofKey();
    expect(found).toMatchObject({ windowMs: 60_000 });
    expect('retryAfterMs' in found).toBe(!isForever);
    reader.close();
  });

  test(`a denial by ${title} has RateLimit headers, and Retry-After if temporary`, async () => {
    const { statuses, response_headers_to_add: headers } = await deny(name());
    const { seconds, nanos } = statuses.at(-1)!.duration_until_reset!;
    expect(seconds + nanos / 1e9).toBeGreaterThan(0);
    const headerValue = (field: string) => headers.find((each) => each.key === field)?.value;
    expect(`${headerValue('RateLimit-Policy')} ${headerValue('RateLimit')}`).toMatch(fields);
    expect(headerValue('Retry-After') === undefined).toBe(isForever);
  });
});

describe('counting of decisions in several steps', () => {
  test('a charge that another limit denies is counted as released, not as allowed', async () => {
    const user = name();
    const counts = async () => ({
      ten: [await decisions('shop.ten', 'allowed'), await decisions('shop.ten', 'released')],
      soft: [await decisions('shop.soft', 'allowed'), await decisions('shop.soft', 'denied')],
    });
    const before = await counts();
    const both = [entries('ten', user), entries('soft', user)];
    expect((await check(1, ...both)).overall_code).toBe(OK);
    expect((await check(1, ...both)).overall_code).toBe(OVER);
    const after = await counts();
    expect(after.ten).toEqual([before.ten[0] + 1, before.ten[1] + 1]);
    expect(after.soft).toEqual([before.soft[0] + 1, before.soft[1] + 1]);
  });

  test.each([
    ['shop.quiet', () => check(1, entries('quiet', name()))],
    ['shop.watched', () => check(3, entries('watched', name()))],
  ])('a shadow denial by %s is counted', async (policy, send) => {
    const before = await decisions(policy, 'shadow_denied');
    expect((await send()).overall_code).toBe(OK);
    expect(await decisions(policy, 'shadow_denied')).toBe(before + 1);
    expect(await topKeys(policy)).not.toEqual([]);
  });

  test('allowed hits of 0 are not counted as a decision', async () => {
    const before = await decisions('shop.ten', 'allowed');
    await check(1, { ...entries('ten', name()), hits_addend: { value: 0 } });
    expect(await decisions('shop.ten', 'allowed')).toBe(before);
  });
});
