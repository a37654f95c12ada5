/** Runs the commands of README.md and compares their output. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Process, root, runSluice, scratch } from './running.ts';

const file = scratch();
const readme = readFileSync(`${root}README.md`, 'utf8');

/** The block after a marker. */
function blockAfter(marker: string): string {
  const [, text] =
    new RegExp(`<!-- ${marker} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(readme) ?? [];
  if (text === undefined) throw new Error(`README.md has no block after ${marker}`);
  return text;
}

describe('the service command of README.md', () => {
  let service: Process;
  let address: string;

  beforeAll(async () => {
    const [install, command] = blockAfter('service command').trim().split(' && ');
    // The packages are installed when tests run.
    expect(install).toBe('npm install');
    service = new Process('bash', ['-c', `exec ${command}`], { SLUICE_LISTEN: '127.0.0.1:0' });
    [, address] = await service.printed(/"url":"http:\/\/([^"]+)"/);
  }, 120_000);
  afterAll(async () => {
    await service?.stop();
  });

  test('in README.md, four of the five requests pass, and the fifth receives 429', async () => {
    const lines = blockAfter('five lines').trim().split('\n');
    expect(lines).toHaveLength(5);
    const responses: string[] = [];
    for (const line of lines) {
      expect(line).toContain("'127.0.0.1:8080/");
      const here = line.replace('127.0.0.1:8080', address);
      const { code, stdout } = await new Process('bash', ['-c', here], {}).ended;
      expect(code).toBe(0);
      responses.push(stdout.replaceAll('\r', ''));
    }
    for (const [at, remaining] of [9, 6, 3, 0].entries()) {
      expect(responses[at]).toMatch(/^HTTP\/1\.1 200 OK\n/);
      expect(responses[at]).toMatch(
        new RegExp(`^RateLimit: "perMinute";r=${remaining};t=(5\\d|60)$`, 'm'),
      );
    }
    const expected = blockAfter('the fifth').trim().split('\n');
    const waits: string[] = [];
    for (const line of expected) {
      const exact = line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      // Some seconds may have passed since the first request.
      const pattern = exact.replace(/(?<=;t=|: )60$/, '(5\\d|60)');
      const found = new RegExp(`^${pattern}$`, 'm').exec(responses[4]);
      expect(found, line).not.toBeNull();
      waits.push(...found!.slice(1));
    }
    expect(expected.map((line) => line.split(/[: ]/)[0])).toEqual([
      'HTTP/1.1',
      'RateLimit-Policy',
      'RateLimit',
      'Retry-After',
    ]);
    expect(waits).toHaveLength(2);
    expect(waits[1]).toBe(waits[0]);
  });

  test('npm forwards SIGTERM, and the service exits with 0', async () => {
    const { code, stdout } = await service.stop();
    expect(stdout).toContain('"msg":"stopped"');
    expect(code).toBe(0);
    await expect(fetch(`http://${address}/healthz`)).rejects.toThrow();
  });

  test('the policies and rules in README.md are valid', async () => {
    const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(readme)!;
    const { code, stdout } = await runSluice(['validate', file('limits.yaml', yaml)]);
    expect(stdout).toBe('1 file, 3 policies, 1 rule, no problems\n');
    expect(code).toBe(0);
  });

  test('README.md has fewer than 200 lines', () => {
    expect(readme.split('\n').length).toBeLessThan(200);
  });
});
