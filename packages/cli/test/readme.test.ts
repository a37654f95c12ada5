/** What README.md promises about the service, run as it stands there. */
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

describe('README.md', () => {
  let service: Process;
  let address: string;

  beforeAll(async () => {
    const [install, command] = blockAfter('service command').trim().split(' && ');
    // It has been installed, or this would not run.
    expect(install).toBe('npm install');
    service = new Process('bash', ['-c', `exec ${command}`], { SLUICE_LISTEN: '127.0.0.1:0' });
    [, address] = await service.printed(/"url":"http:\/\/([^"]+)"/);
  }, 120_000);
  afterAll(async () => {
    await service?.stop();
  });

  test('five lines, four of which pass, and a 429 that says when to come back', async () => {
    const lines = blockAfter('five lines').trim().split('\n');
    expect(lines).toHaveLength(5);
    const answers: string[] = [];
    for (const line of lines) {
      expect(line).toContain("'127.0.0.1:8080/");
      const here = line.replace('127.0.0.1:8080', address);
      const { code, stdout } = await new Process('bash', ['-c', here], {}).ended;
      expect(code).toBe(0);
      answers.push(stdout.replaceAll('\r', ''));
    }
    for (const [at, left] of [9, 6, 3, 0].entries()) {
      expect(answers[at]).toMatch(/^HTTP\/1\.1 200 OK\n/);
      expect(answers[at]).toMatch(
        new RegExp(`^RateLimit: "perMinute";r=${left};t=(5\\d|60)$`, 'm'),
      );
    }
    const promised = blockAfter('the fifth').trim().split('\n');
    const waits: string[] = [];
    for (const line of promised) {
      const exact = line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
      // Some time has passed since the first.
      const pattern = exact.replace(/(?<=;t=|: )60$/, '(5\\d|60)');
      const found = new RegExp(`^${pattern}$`, 'm').exec(answers[4]);
      expect(found, line).not.toBeNull();
      waits.push(...found!.slice(1));
    }
    expect(promised.map((line) => line.split(/[: ]/)[0])).toEqual([
      'HTTP/1.1',
      'RateLimit-Policy',
      'RateLimit',
      'Retry-After',
    ]);
    expect(waits).toHaveLength(2);
    expect(waits[1]).toBe(waits[0]);
  });

  test('npm passes a signal on, and the service ends with 0', async () => {
    const { code, stdout } = await service.stop();
    expect(stdout).toContain('"msg":"stopped"');
    expect(code).toBe(0);
    await expect(fetch(`http://${address}/healthz`)).rejects.toThrow();
  });

  test('the policies and rules it shows are valid', async () => {
    const [, yaml] = /```yaml\n([\s\S]*?)```/.exec(readme)!;
    const { code, stdout } = await runSluice(['validate', file('limits.yaml', yaml)]);
    expect(stdout).toBe('1 file, 3 policies, 1 rule, no problems\n');
    expect(code).toBe(0);
  });

  test('has fewer than 200 lines', () => {
    expect(readme.split('\n').length).toBeLessThan(200);
  });
});
