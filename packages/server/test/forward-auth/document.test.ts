/** What docs/proxies.md says is so. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { normalPath, PathPattern } from '../../src/rules/request-path.ts';
import { type Running, startRunning } from '../running.ts';
import { forwarded, PATH, repeat, statusesOf } from './asking.ts';

const pathOf = (path: string): string => new URL(`../../../../${path}`, import.meta.url).pathname;
const page = readFileSync(pathOf('docs/proxies.md'), 'utf8');
const EXAMPLE = pathOf('examples/proxies/sluice.yaml');

/** The texts in backticks of a cell. */
const codesIn = (cell: string): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code);

describe('docs/proxies.md', () => {
  it('shows the example as it is', () => {
    const [, block] = /^```yaml\n([\s\S]*?)^```$/m.exec(page)!;
    expect(block).toBe(readFileSync(EXAMPLE, 'utf8'));
  });

  const rows = page
    .slice(page.indexOf('| pattern | fits |'))
    .split('\n\n')[0]
    .split('\n')
    .slice(2)
    .map((row) => row.split('|').slice(1, 4).map(codesIn));

  it.each(rows)('says what %j fits', ([pattern], fitting, others) => {
    expect(fitting.length * others.length).toBeGreaterThan(0);
    const compiled = new PathPattern(pattern);
    for (const path of fitting)
      expect([path, compiled.fits(normalPath(path))]).toEqual([path, true]);
    for (const path of others)
      expect([path, compiled.fits(normalPath(path))]).toEqual([path, false]);
  });
});

describe('examples/proxies/sluice.yaml', () => {
  let running: Running;
  beforeAll(async () => {
    running = await startRunning({ config: await loadConfig([EXAMPLE]) });
  });
  afterAll(() => running.close());

  it('limits logins, then everything, and the health check not at all', async () => {
    const login = forwarded('/login', { 'x-forwarded-method': 'POST' });
    const logins = await repeat(6, () => running.get(PATH, login));
    expect(statusesOf(logins)).toEqual([200, 200, 200, 200, 200, 429]);
    const other = await running.get(PATH, forwarded('/'));
    expect(other.headers.get('ratelimit')).toBe('"perClient";r=99;t=60');
    const keyed = await running.get(PATH, forwarded('/', { 'x-api-key': 'ada' }));
    expect(keyed.headers.get('ratelimit')).toBe('"perClient";r=99;t=60');
    const pretence = await running.get(PATH, forwarded('/', { 'x-api-key': '192.0.2.1' }));
    expect(pretence.headers.get('ratelimit')).toBe('"perClient";r=99;t=60');
    const health = await running.get(PATH, forwarded('/health'));
    expect([health.status, health.headers.has('ratelimit')]).toEqual([200, false]);
  });
});
