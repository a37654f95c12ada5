/** Files of envoyproxy/ratelimit, and the additions to its form, decide as they are documented. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { type Running, startRunning } from '../running.ts';
import {
  addressOf,
  entries,
  FREE,
  OK,
  OVER,
  RlsClient,
  UNLIMITED,
  type Verdict,
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

// Time stands still, so that a slow machine does not reach the next second.
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(async () => {
  vi.useRealTimers();
  client.close();
  await running.close();
});

const ask = (...descriptors: object[]): Promise<Verdict> => client.ask({ domain, descriptors });
const passing = (...texts: string[]): Promise<number> =>
  client.passing({ domain, descriptors: [entries(...texts)] }, 9);
const codes = ({ statuses }: Verdict): readonly string[] => statuses.map(({ code }) => code);

describe('the documented example', () => {
  test('example 1: limits of individual values', async () => {
    await serveFile('example-01-exact-values');
    expect(await passing('database', 'orders')).toBe(7);
    expect(await passing('database', 'fallback')).toBe(3);
    expect((await ask(entries('database', 'other'))).statuses).toEqual([FREE]);
  });

  test('example 2: nested descriptors, several in one request', async () => {
    await serveFile('example-02-nested');
    const [ad, any] = [entries('kind', 'advertisement', 'number', '1'), entries('number', '1')];
    for (const left of [1, 0]) {
      const { statuses } = await ask(ad, any);
      expect(statuses[0].limit_remaining).toBe(left);
    }
    const third = await ask(ad, any);
    expect([third.overall_code, ...codes(third)]).toEqual([OVER, OVER, OK]);
    // What was denied has not been charged to the number either.
    expect(await passing('number', '1')).toBe(4);
    expect(await passing('kind', 'advertisement', 'number', '2')).toBe(2);
    expect((await ask(entries('kind', 'advertisement'))).statuses).toEqual([FREE]);
  });

  test('example 3: one value is blocked, all others are limited', async () => {
    await serveFile('example-03-blocked-value');
    expect(await passing('remote_address', '192.0.2.5')).toBe(0);
    expect(await passing('remote_address', '192.0.2.6')).toBe(4);
    expect(await passing('remote_address', '192.0.2.7')).toBe(4);
  });

  test('example 4: a descriptor matches only at the depth of its limit', async () => {
    await serveFile('example-04a-one-level');
    const deep = entries('colour', 'red', 'shape', 'round');
    expect((await ask(deep)).statuses).toEqual([FREE]);
    expect(await passing('colour', 'red')).toBe(5);
    client.close();
    await running.close();
    await serveFile('example-04b-two-levels');
    expect(await passing('colour', 'red', 'shape', 'round')).toBe(5);
    expect((await ask(entries('colour', 'red'))).statuses).toEqual([FREE]);
  });

  test('example 5: unlimited differs from unknown', async () => {
    await serveFile('example-05-unlimited');
    expect((await ask(entries('directory', 'x'))).statuses).toEqual([UNLIMITED]);
    expect((await ask(entries('nothing', 'x'))).statuses).toEqual([FREE]);
    expect(await passing('cloud', 'x')).toBe(5);
  });

  test('example 6: shadow mode', async () => {
    await serveFile('example-06-shadow-mode');
    expect(await passing('service', 'login', 'user', 'ann')).toBe(9);
    expect(await passing('service', 'login', 'user', 'ben')).toBe(3);
  });

  test('example 7: replaces', async () => {
    await serveFile('example-07-replaces');
    const usual = entries('group', 'readers', 'user', 'ann');
    const special = entries('endpoint', 'feed', 'user', 'ann');
    for (let call = 0; call < 4; call++) expect((await ask(usual, special)).overall_code).toBe(OK);
    expect((await ask(usual, special)).overall_code).toBe(OVER);
    // The limit that was replaced has not been touched.
    expect((await ask(usual)).statuses[0].limit_remaining).toBe(1);
  });

  test('example 8: detailed metrics do not change decisions', async () => {
    await serveFile('example-08-detailed-metric');
    expect(await passing('page', 'a')).toBe(2);
    expect(await passing('page', 'b')).toBe(2);
    expect(await passing('page', 'start')).toBe(4);
  });

  test('example 9: wildcards at the end, in the middle, and several', async () => {
    await serveFile('example-09a-star-at-the-end');
    expect(await passing('name', 'robot1')).toBe(2);
    expect(await passing('name', 'robot2')).toBe(2);
    expect((await ask(entries('name', 'other'))).statuses).toEqual([FREE]);
    client.close();
    await running.close();
    await serveFile('example-09b-star-in-the-middle');
    expect(await passing('path', '/shop/7/buy')).toBe(2);
    expect((await ask(entries('path', '/shop/7/look'))).statuses).toEqual([FREE]);
    client.close();
    await running.close();
    await serveFile('example-09c-several-stars');
    expect(await passing('path', '/shop/7/item/8/buy')).toBe(2);
    expect((await ask(entries('path', '/shop/7/buy'))).statuses).toEqual([FREE]);
  });

  test('example 10: values in metrics do not change decisions', async () => {
    await serveFile('example-10a-value-to-metric');
    expect(await passing('route', 'api', 'method', 'GET', 'subject', '1')).toBe(2);
    expect(await passing('route', 'api', 'method', 'PUT', 'subject', '1')).toBe(2);
    client.close();
    await running.close();
    await serveFile('example-10b-value-to-metric-with-star');
    expect(await passing('user', 'ann', 'action', 'readfile', 'resource', 'x')).toBe(2);
    expect(
      (await ask(entries('user', 'ann', 'action', 'write', 'resource', 'x'))).statuses,
    ).toEqual([FREE]);
  });

  test('example 11: shared thresholds', async () => {
    await serveFile('example-11a-share-threshold');
    for (const name of ['a', 'b', 'c', 'd']) {
      expect((await ask(entries('document', `shared/${name}`))).overall_code).toBe(OK);
    }
    expect(await passing('document', 'shared/e')).toBe(0);
    expect(await passing('document', 'private/a')).toBe(4);
    expect(await passing('document', 'private/b')).toBe(4);
    client.close();
    await running.close();
    await serveFile('example-11b-share-threshold-above');
    expect(await passing('route', 'api/v1', 'method', 'GET')).toBe(3);
    expect(await passing('route', 'api/v2', 'method', 'GET')).toBe(0);
    expect(await passing('route', 'api/v2', 'method', 'PUT')).toBe(3);
  });
});

describe('the file', () => {
  test('the file of the demonstration is applied', async () => {
    await serveFile('demo');
    expect(await passing('from', 'front', 'to', 'back')).toBe(1);
    expect(await passing('one', 'x')).toBe(2);
    expect(await passing('one', 'x', 'two', 'y')).toBe(3);
    expect(await passing('one', 'x', 'two', 'banned')).toBe(0);
    expect(await passing('one', 'x', 'three', 'y')).toBe(1);
    expect(await passing('one', 'x', 'three', 'watched')).toBe(9);
    expect((await ask(entries('open', 'x'))).statuses).toEqual([UNLIMITED]);
  });

  test('every unit is applied', async () => {
    await serveFile('every-unit');
    const units = ['SECOND', 'MINUTE', 'HOUR', 'DAY', 'WEEK', 'MONTH', 'YEAR'];
    const values = ['1', '2', '3', '4', '5', '6', '007'];
    const { statuses } = await ask(...values.map((value) => entries('a', value)));
    expect(statuses.map((status) => status.current_limit?.unit)).toEqual(
      units.map((unit) => `PERIOD_${unit}`),
    );
  });

  test('fields beyond envoyproxy/ratelimit are applied', async () => {
    await serveFile('additions');
    expect(await client.passing({ domain, descriptors: [entries('upload', 'x')] }, 25)).toBe(20);
    const { statuses } = await ask(entries('burst', 'x'), entries('steps', 'x'));
    expect(statuses.map((status) => status.limit_remaining)).toEqual([29, 499]);
  });

  test('quota_mode is applied', async () => {
    await serveFile('quota-mode');
    const both = [entries('backend', 'first'), entries('backend', 'second')];
    expect(await client.passing({ domain, descriptors: both }, 5)).toBe(2);
  });

  test('metadata is applied', async () => {
    await serveFile('metadata');
    expect((await ask(entries('backend', 'first'))).dynamic_metadata).not.toBeNull();
  });
});
