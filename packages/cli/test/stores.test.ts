/** The service with Redis, with TLS and on all addresses. */
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { tryLine } from '../src/welcome.ts';
import { Process, runSluice, scratch, serving, sluice } from './running.ts';

const file = scratch();
const TOKEN = 'a-token-with-enough-letters';
const config = ['--config', file('limits.yaml', 'policies: { few: 2/1h }\n')];

const running: Process[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop('SIGKILL')));
});
const keep = <T extends Process>(process: T): T => {
  running.push(process);
  return process;
};
const lineOf = ({ stdout }: Process): string =>
  JSON.parse(stdout.split('\n').find((line) => line.includes('"listening"'))!).try;
const curl = (line: string) => new Process('bash', ['-c', `${line} -s`], {}).ended;

describe('sluice serve --store redis://', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ password: 'hunter2-of-redis' });
  });
  afterAll(async () => {
    await redis?.stop();
  });
  const storeOf = (port: number): string[] => {
    const url = `redis://:hunter2-of-redis@127.0.0.1:${port}`;
    return [...config, '--store', url, '--deadline', '5s'];
  };

  test('two services share one limit, exit with 0 and do not print the password', async () => {
    const services = [
      keep(await serving(storeOf(redis.port))),
      keep(await serving(storeOf(redis.port))),
    ];
    for (const service of services) await service.printed(/store connected/);
    const codes: (number | null)[] = [];
    for (const { url } of [...services, ...services]) {
      codes.push((await runSluice(['check', 'few', 'a', '--url', url])).code);
    }
    expect(codes).toEqual([0, 0, 1, 1]);
    for (const service of services) {
      const { code, stdout, stderr } = await service.stop();
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).not.toContain('hunter2');
    }
  });

  test.each([1, 2])(
    'a clean stop of %i worker(s) on Redis logs no error and no warning',
    async (workers) => {
      const args = [...storeOf(redis.port), '--workers', String(workers), '--grpc', '127.0.0.1:0'];
      const service = keep(await serving(args));
      await service.printed(/store connected/);
      await runSluice(['check', 'few', `stop-${workers}`, '--url', service.url]);
      const { code, stdout, stderr } = await service.stop();
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const lines = stdout.trimEnd().split('\n');
      expect(lines.filter((line) => !line.startsWith('{"level":"info"'))).toEqual([]);
      expect(lines.at(-1)).toContain('"stopped"');
    },
  );

  test('an invalid store URL is rejected without printing its password', async () => {
    const { code, stdout, stderr } = await runSluice([
      'serve',
      '--store',
      'redis://:hunter/2@host',
    ]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: Expected --store to be .+, got a URL with `@`, `\/` or `\?` before/,
    );
    expect(stdout + stderr).not.toMatch(/hunter|2@/);
  });

  test('a service without Redis starts, reports the failed store and exits with 0', async () => {
    const service = keep(await serving([...storeOf(1), '--deadline', '1s']));
    const { stdout, code } = await runSluice(['check', 'few', 'a', '--url', service.url]);
    expect(stdout).toMatch(/^allowed .*\ndegraded {2}store unavailable \(\w+\), action: local\n$/);
    expect(code).toBe(0);
    const inspected = await runSluice(['inspect', 'few', 'a', '--url', service.url]);
    expect(inspected.code).toBe(2);
    expect(inspected.stderr).toBe(
      'error: The store replied with an error: not connected (ERR_STORE_UNAVAILABLE)\n',
    );
    const ended = await service.stop();
    expect(ended.code).toBe(0);
    expect(ended.stdout).toContain('store disconnected');
    expect(ended.stdout + ended.stderr).not.toContain('hunter2');
  });

  test('check prints that a denial was caused by the store and exits with 1', async () => {
    const args = [...storeOf(1), '--deadline', '1s', '--on-failure', 'deny'];
    const service = keep(await serving(args));
    const { stdout, code } = await runSluice(['check', 'few', 'a', '--url', service.url]);
    expect(stdout).toMatch(/^denied {4}store unavailable\ndegraded /);
    expect(code).toBe(1);
  });
});

describe('the curl command that serve prints', () => {
  test('the printed curl command works over TLS', async () => {
    const folder = dirname(file('nothing', ''));
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const kind = ['-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost'];
    execFileSync('openssl', ['req', ...kind, '-keyout', key, '-out', cert], { stdio: 'ignore' });
    const service = keep(await serving([...config, '--tls-cert', cert, '--tls-key', key]));
    expect(service.url).toMatch(/^https:/);
    expect((await curl(lineOf(service))).stdout).toMatch(/^HTTP\/1\.1 200 OK/);
    const untrusted = await runSluice(['check', 'few', 'b', '--url', service.url]);
    expect(untrusted.code).toBe(2);
    expect(untrusted.stderr).toContain('Cannot reach https://');
    const trusted = { NODE_EXTRA_CA_CERTS: cert };
    const url = service.url.replace('127.0.0.1', 'localhost');
    expect((await sluice(['check', 'few', 'b', '--url', url], trusted)).code).toBe(0);
  });

  test('the printed curl command works for a service on all addresses', async () => {
    const variables = { SLUICE_ADMIN_TOKEN: TOKEN };
    const service = keep(await serving([...config, '--listen', '0.0.0.0:0'], variables));
    expect(lineOf(service)).toContain('http://127.0.0.1:');
    expect((await curl(lineOf(service))).stdout).toMatch(/^HTTP\/1\.1 200 OK/);
  });

  test('the printed curl command quotes the policy name for the shell', async () => {
    const policy = { name: "a'b", options: { limit: 1, window: '1s' }, shadow: false };
    const empty = {
      files: [],
      policies: [],
      rules: [],
      domains: [],
      overrides: [],
      warnings: [],
      settings: {},
    };
    const listen = { host: '::', port: 8080 };
    const url = 'http://[::]:8080';
    const line = tryLine(url, listen, { ...empty, policies: [policy] });
    const { stdout } = await new Process('bash', ['-c', line.replace('curl', 'printf "%s\n"')], {})
      .ended;
    expect(stdout.trimEnd().split('\n')).toEqual([
      '-i',
      'http://[::1]:8080/v1/check?enforce',
      '-d',
      '{"policy":"a\'b","key":"user:42"}',
    ]);
    expect(tryLine(url, listen, empty)).toBe("curl -i 'http://[::1]:8080/healthz'");
  });
});
