/** Configuration files of envoyproxy/ratelimit, and Sluice's additions, apply as documented. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { type Running, startRunning } from '../running.ts';
import {
  addressOf,
  entries,
  FREE,
  OK,
  OVER,
  type RateLimitResponse,
  RlsClient,
  UNLIMITED,
} from './client.ts';

const folder = new URL('../config/envoy/', import.meta.url).pathname;

let running: Running;
let client: RlsClient;
let domain: string;

async function serveFile(name: string): Promise<void> {
  const config = await loadConfig([`${folder}${name}.yaml`]);
  running = await startRunning({ config, settings: { grpc: '127.0.0.1:0' } });
  client = new RlsClient(addressOf(running));
  domain = config.domains[0].domain;
}

// The clock is stopped, so that a slow machine does not reach the next second.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(async () => {
  vi.useRealTimers();
  client.close();
  await running.close();
});

const check = (...descriptors: object[]): Promise<RateLimitResponse> =>
  client.shouldRateLimit({ domain, descriptors });
const countAllowed = (...texts: string[]): Promise<number> =>
  client.countAllowed({ domain, descriptors: [entries(...texts)] }, 9);
const codes = ({ statuses }: RateLimitResponse): readonly string[] =>
  statuses.map(({ code }) => code);

describe('examples of envoyproxy/ratelimit', () => {
  test('in example 1, each listed value has its own limit', async () => {
    await serveFile('example-01-exact-values');
    expect(await countAllowed('database', 'orders')).toBe(7);
    expect(await countAllowed('database', 'fallback')).toBe(3);
    expect((await check(entries('database', 'other'))).statuses).toEqual([FREE]);
  });

  test('in example 2, several nested descriptors in one request are charged together', async () => {
    await serveFile('example-02-nested');
    const [ad, any] = [entries('kind', 'advertisement', 'number', '1'), entries('number', '1')];
    for (const remaining of [1, 0]) {
      const { statuses } = await check(ad, any);
      expect(statuses[0].limit_remaining).toBe(remaining);
    }
    const third = await check(ad, any);
    expect([third.overall_code, ...codes(third)]).toEqual([OVER, OVER, OK]);
    // The denied request is not charged to the other limit either.
    expect(await countAllowed('number', '1')).toBe(4);
    expect(await countAllowed('kind', 'advertisement', 'number', '2')).toBe(2);
    expect((await check(entries('kind', 'advertisement'))).statuses).toEqual([FREE]);
  });

  test('in example 3, one value is blocked, all others are limited', async () => {
    await serveFile('example-03-blocked-value');
    expect(await countAllowed('remote_address', '192.0.2.5')).toBe(0);
    expect(await countAllowed('remote_address', '192.0.2.6')).toBe(4);
    expect(await countAllowed('remote_address', '192.0.2.7')).toBe(4);
  });

  test('in example 4, a descriptor matches only at the depth of its limit', async () => {
    await serveFile('example-04a-one-level');
    const deep = entries('colour', 'red', 'shape', 'round');
    expect((await check(deep)).statuses).toEqual([FREE]);
    expect(await countAllowed('colour', 'red')).toBe(5);
    client.close();
    await running.close();
    await serveFile('example-04b-two-levels');
    expect(await countAllowed('colour', 'red', 'shape', 'round')).toBe(5);
    expect((await check(entries('colour', 'red'))).statuses).toEqual([FREE]);
  });

  test('in example 5, an unlimited descriptor has another status than an unknown one', async () => {
    await serveFile('example-05-unlimited');
    expect((await check(entries('directory', 'x'))).statuses).toEqual([UNLIMITED]);
    expect((await check(entries('nothing', 'x'))).statuses).toEqual([FREE]);
    expect(await countAllowed('cloud', 'x')).toBe(5);
  });

  test('in example 6, a descriptor in shadow mode never denies', async () => {
    await serveFile('example-06-shadow-mode');
    expect(await countAllowed('service', 'login', 'user', 'ann')).toBe(9);
    expect(await countAllowed('service', 'login', 'user', 'ben')).toBe(3);
  });

  test('in example 7, a limit that replaces another is charged in its place', async () => {
    await serveFile('example-07-replaces');
    const usual = entries('group', 'readers', 'user', 'ann');
    const special = entries('endpoint', 'feed', 'user', 'ann');
    for (let call = 0; call < 4; call++)
      expect((await check(usual, special)).overall_code).toBe(OK);
    expect((await check(usual, special)).overall_code).toBe(OVER);
    // The replaced limit is not charged.
    expect((await check(usual)).statuses[0].limit_remaining).toBe(1);
  });

  test('in example 8, detailed metrics do not change decisions', async () => {
    await serveFile('example-08-detailed-metric');
    expect(await countAllowed('page', 'a')).toBe(2);
    expect(await countAllowed('page', 'b')).toBe(2);
    expect(await countAllowed('page', 'start')).toBe(4);
  });

  test('in example 9, wildcards match at the end, in the middle and several times', async () => {
    await serveFile('example-09a-star-at-the-end');
    expect(await countAllowed('name', 'robot1')).toBe(2);
    expect(await countAllowed('name', 'robot2')).toBe(2);
    expect((await check(entries('name', 'other'))).statuses).toEqual([FREE]);
    client.close();
    await running.close();
    await serveFile('example-09b-star-in-the-middle');
    expect(await countAllowed('path', '/shop/7/buy')).toBe(2);
    expect((await check(entries('path', '/shop/7/look'))).statuses).toEqual([FREE]);
    client.close();
    await running.close();
    await serveFile('example-09c-several-stars');
    expect(await countAllowed('path', '/shop/7/item/8/buy')).toBe(2);
    expect((await check(entries('path', '/shop/7/buy'))).statuses).toEqual([FREE]);
  });

  test('in example 10, values in metrics do not change decisions', async () => {
    await serveFile('example-10a-value-to-metric');
    expect(await countAllowed('route', 'api', 'method', 'GET', 'subject', '1')).toBe(2);
    expect(await countAllowed('route', 'api', 'method', 'PUT', 'subject', '1')).toBe(2);
    client.close();
    await running.close();
    await serveFile('example-10b-value-to-metric-with-star');
    expect(await countAllowed('user', 'ann', 'action', 'readfile', 'resource', 'x')).toBe(2);
    expect(
      (await check(entries('user', 'ann', 'action', 'write', 'resource', 'x'))).statuses,
    ).toEqual([FREE]);
  });

  test('in example 11, values with share_threshold share one counter', async () => {
    await serveFile('example-11a-share-threshold');
    for (const name of ['a', 'b', 'c', 'd']) {
      expect((await check(entries('document', `shared/${name}`))).overall_code).toBe(OK);
    }
    expect(await countAllowed('document', 'shared/e')).toBe(0);
    expect(await countAllowed('document', 'private/a')).toBe(4);
    expect(await countAllowed('document', 'private/b')).toBe(4);
    client.close();
    await running.close();
    await serveFile('example-11b-share-threshold-above');
    expect(await countAllowed('route', 'api/v1', 'method', 'GET')).toBe(3);
    expect(await countAllowed('route', 'api/v2', 'method', 'GET')).toBe(0);
    expect(await countAllowed('route', 'api/v2', 'method', 'PUT')).toBe(3);
  });
});

describe('other files of envoyproxy/ratelimit', () => {
  test('the limits of the demo file of envoyproxy/ratelimit are applied', async () => {
    await serveFile('demo');
    expect(await countAllowed('from', 'front', 'to', 'back')).toBe(1);
    expect(await countAllowed('one', 'x')).toBe(2);
    expect(await countAllowed('one', 'x', 'two', 'y')).toBe(3);
    expect(await countAllowed('one', 'x', 'two', 'banned')).toBe(0);
    expect(await countAllowed('one', 'x', 'three', 'y')).toBe(1);
    expect(await countAllowed('one', 'x', 'three', 'watched')).toBe(9);
    expect((await check(entries('open', 'x'))).statuses).toEqual([UNLIMITED]);
  });

  test('a limit with any unit of time reports that unit in the status', async () => {
    await serveFile('every-unit');
    const units = ['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'];
    const values = ['1', '2', '3', '4', '5', '6', '007'];
    const { statuses } = await check(...values.map((value) => entries('a', value)));
    expect(statuses.map((status) => status.current_limit?.unit)).toEqual(
      units.map((unit) => `PERIOD_${unit}`),
    );
  });

  test('fields of a rate_limit beyond envoyproxy/ratelimit are applied', async () => {
    await serveFile('additions');
    expect(await client.countAllowed({ domain, descriptors: [entries('upload', 'x')] }, 25)).toBe(
      20,
    );
    const { statuses } = await check(entries('burst', 'x'), entries('steps', 'x'));
    expect(statuses.map((status) => status.limit_remaining)).toEqual([29, 499]);
  });

  test('a request is allowed until all its quota_mode limits are exceeded', async () => {
    await serveFile('quota-mode');
    const both = [entries('backend', 'first'), entries('backend', 'second')];
    expect(await client.countAllowed({ domain, descriptors: both }, 5)).toBe(2);
  });

  test('the metadata of a descriptor is returned as dynamic_metadata', async () => {
    await serveFile('metadata');
    expect((await check(entries('backend', 'first'))).dynamic_metadata).not.toBeNull();
  });
});
