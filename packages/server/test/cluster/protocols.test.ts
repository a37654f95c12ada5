/** All protocols of the service, with several workers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { programOf } from '../../../../tools/test-programs.ts';
import { readConfig } from '../../src/config/read.ts';
import { entries, OK, OVER, RlsClient } from '../envoy-rls/client.ts';
import { policy } from '../running.ts';
import { certOf, writeTlsFiles } from '../tls-pair.ts';
import { RunningGroup } from './running-group.ts';

const soon = { timeout: 20_000, interval: 20 };
const folder = mkdtempSync(join(tmpdir(), 'sluice-protocols-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const running: RunningGroup[] = [];
afterEach(async () => {
  for (const group of running.splice(0)) await group.stop();
}, 60_000);

describe('gRPC', () => {
  const CONFIG = `
domain: shop
descriptors:
  - { key: fifty, rate_limit: { unit: hour, requests_per_unit: 50 } }
`;
  const fifty = (value: string) => ({ domain: 'shop', descriptors: [entries('fifty', value)] });
  let group: RunningGroup;
  beforeAll(async () => {
    const config = readConfig([{ path: 'test.yaml', text: CONFIG }]);
    group = await RunningGroup.start({ config, settings: { workers: 3, grpc: '127.0.0.1:0' } });
  }, 60_000);
  afterAll(() => group?.stop(), 60_000);

  const clients = (count: number): RlsClient[] =>
    Array.from({ length: count }, () => new RlsClient(`127.0.0.1:${group.grpc!.port}`));

  test('gRPC calls over all workers are admitted up to the limit', async () => {
    const all = clients(9);
    const responses = await Promise.all(
      Array.from({ length: 900 }, (_, call) => all[call % 9].shouldRateLimit(fifty('crowded'))),
    );
    const passed = responses.filter(({ overall_code }) => overall_code === OK);
    expect(passed).toHaveLength(50);
    expect(responses.filter(({ overall_code }) => overall_code === OVER)).toHaveLength(850);
    expect(await all[0].health()).toBe('STATE_SERVING');
    for (const each of all) each.close();
  });

  test('gRPC calls and HTTP requests share their counters', async () => {
    const [client] = clients(1);
    expect(await client.countAllowed(fifty('shared'), 30)).toBe(30);
    const body = {
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'fifty', value: 'shared' }] }],
      hitsAddend: 20,
    };
    const post = () => fetch(`${group.url}/json`, { method: 'POST', body: JSON.stringify(body) });
    expect([(await post()).status, (await post()).status]).toEqual([200, 429]);
    client.close();
  });

  test('gRPC calls in flight complete during a shutdown', { timeout: 60_000 }, async () => {
    const all = clients(6);
    await Promise.all(all.map((each) => each.shouldRateLimit(fifty('stopping'))));
    const calls = Array.from({ length: 300 }, (_, call) =>
      all[call % 6].shouldRateLimit(fifty('stopping')),
    );
    // The other calls are in flight then.
    await calls[0];
    group.kill('SIGTERM');
    const results = await Promise.allSettled(calls);
    expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(await group.ended).toEqual({ code: 0, signal: null });
    for (const each of all) each.close();
  });
});

test('several workers serve TLS, and the limit holds', { timeout: 60_000 }, async () => {
  const files = writeTlsFiles(folder);
  const group = await RunningGroup.start({
    config: { policies: [policy('p', 20, '1h')] },
    settings: { workers: 2, ...files },
  });
  running.push(group);
  expect(group.url).toMatch(/^https:/);
  const agent = new Agent({ keepAlive: true, maxSockets: 6, ca: certOf(files) });
  const check = async (): Promise<number | undefined> => {
    const sent = request(`${group.url}/v1/check?enforce`, { method: 'POST', agent });
    sent.end(JSON.stringify({ policy: 'p', key: 'a' }));
    const [response] = await once(sent, 'response');
    response.resume();
    await once(response, 'end');
    return response.statusCode;
  };
  const statuses = await Promise.all(Array.from({ length: 60 }, check));
  expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  expect(statuses.filter((status) => status === 429)).toHaveLength(40);
  agent.destroy();
});

describe('sluice serve --workers', () => {
  const binary = programOf('sluice');

  test('sluice serve --workers 2 reloads on SIGHUP and stops on SIGTERM', {
    timeout: 60_000,
  }, async () => {
    const file = join(folder, 'sluice.yaml');
    writeFileSync(file, 'policies: { few: 3/1h }\n');
    const args = [binary, 'serve', '--workers', '2', '--config', file, '--listen', '127.0.0.1:0'];
    const service = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(service, 'exit');
    let printed = '';
    service.stdout.setEncoding('utf8').on('data', (piece) => {
      printed += piece;
    });
    await vi.waitUntil(() => printed.includes('"listening"'), soon);
    const { url } = JSON.parse(printed.split('\n').find((line) => line.includes('listening'))!);
    const limit = async (): Promise<number> => {
      const body = JSON.stringify({ policy: 'few', key: 'a' });
      const response = await fetch(`${url}/v1/peek`, { method: 'POST', body });
      return ((await response.json()) as { limit: number }).limit;
    };
    expect(await limit()).toBe(3);
    writeFileSync(file, 'policies: { few: 4/1h }\n');
    service.kill('SIGHUP');
    await vi.waitUntil(async () => (await limit()) === 4, soon);
    service.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });
});
