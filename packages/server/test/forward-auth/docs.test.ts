/** Compares docs/proxies.md with the service. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { PROXY_NAMES, PROXY_PROFILES } from '../../src/proxy-profiles.ts';
import {
  MAX_READINGS,
  MAX_UNUSUAL_PATH_LENGTH,
  readingsOf,
} from '../../src/rules/path-readings.ts';
import { normalPath, PathPattern } from '../../src/rules/request-path.ts';
import { SETTINGS } from '../../src/settings.ts';
import { type Running, startRunning } from '../running.ts';
import { forwarded, PATH, repeat, statusesOf } from './forwarded.ts';

const pathOf = (path: string): string => new URL(`../../../../${path}`, import.meta.url).pathname;
const page = readFileSync(pathOf('docs/proxies.md'), 'utf8');
const EXAMPLE = pathOf('examples/proxies/sluice.yaml');

/** Returns the texts in backticks of a cell. */
const codesIn = (cell: string): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code);

describe('docs/proxies.md', () => {
  it('docs/proxies.md shows the shipped example', () => {
    const [, block] = /^```yaml\n([\s\S]*?)^```$/m.exec(page)!;
    expect(block).toBe(readFileSync(EXAMPLE, 'utf8'));
  });

  const rows = page
    .slice(page.indexOf('| pattern | matches |'))
    .split('\n\n')[0]
    .split('\n')
    .slice(2)
    .map((row) => row.split('|').slice(1, 4).map(codesIn));

  it.each(rows)(
    'docs/proxies.md lists the matches of the pattern %j correctly',
    ([pattern], fitting, others) => {
      expect(fitting.length * others.length).toBeGreaterThan(0);
      const compiled = new PathPattern(pattern);
      for (const path of fitting)
        expect([path, compiled.matches(normalPath(path))]).toEqual([path, true]);
      for (const path of others)
        expect([path, compiled.matches(normalPath(path))]).toEqual([path, false]);
    },
  );
});

describe('headers and readings in docs/proxies.md', () => {
  const rowsAfter = (heading: string): string[][] =>
    page
      .slice(page.indexOf(heading))
      .split('\n\n')[0]
      .split('\n')
      .slice(2)
      .map((row) =>
        row
          .split('|')
          .slice(1, -1)
          .map((cell) => cell.trim()),
      );

  it('docs/proxies.md lists the headers of every profile', () => {
    const shown = rowsAfter('| `--proxy` | method').map((cells) =>
      cells.map((cell) => codesIn(cell)[0]?.toLowerCase()),
    );
    expect(shown).toEqual(
      PROXY_NAMES.map((name) => {
        const { described, host } = PROXY_PROFILES[name];
        return [name, described?.method, described?.url, host, SETTINGS.forwardedHeader.fallback];
      }),
    );
  });

  it('docs/proxies.md lists path readings correctly', () => {
    for (const [spelling] of rowsAfter('| attack | example |')
      .filter(([attack]) => attack.startsWith('a path'))
      .map(([, example]) => codesIn(example))) {
      expect(readingsOf(spelling)).toContain('/login');
    }
    const paths = rowsAfter('| in the path | read as |').flatMap(([cell]) => codesIn(cell));
    for (const path of paths.filter((each) => each.startsWith('/login'))) {
      expect([path, readingsOf(path).includes('/login')]).toEqual([path, true]);
    }
    for (const slash of ['\\', '%5c', '%2f', '%252f', '%c0%af', '%u002f']) {
      expect(paths).toContain(slash);
      expect(readingsOf(`/a${slash}b`)).toContain('/a/b');
    }
  });

  it('docs/proxies.md states the actual maximum numbers', () => {
    expect(page).toContain(`more than ${MAX_READINGS} readings`);
    expect(page).toContain(`than ${MAX_UNUSUAL_PATH_LENGTH.toLocaleString('en')} characters`);
  });
});

describe('examples/proxies/sluice.yaml', () => {
  let running: Running;
  beforeAll(async () => {
    running = await startRunning({ config: await loadConfig([EXAMPLE]) });
  });
  afterAll(() => running.close());

  it('examples/proxies/sluice.yaml limits logins and other requests, not /health', async () => {
    const login = forwarded('/login', { 'x-forwarded-method': 'POST' });
    const logins = await repeat(6, () => running.get(PATH, login));
    expect(statusesOf(logins)).toEqual([200, 200, 200, 200, 200, 429]);
    const policies = async (more = {}) =>
      (await running.get(PATH, forwarded('/', more))).headers.get('ratelimit');
    expect(await policies()).toBe('"perAddress";r=299;t=60, "perKey";r=99;t=60');
    expect(await policies({ 'x-api-key': 'ada' })).toContain('"perKey";r=99;');
    expect(await policies({ 'x-api-key': '192.0.2.1' })).toContain('"perKey";r=99;');
    const health = await running.get(PATH, forwarded('/health'));
    expect([health.status, health.headers.has('ratelimit')]).toEqual([200, false]);
  });

  it('examples/proxies/sluice.yaml limits requests with made-up keys by address', async () => {
    let passed = 0;
    for (let turn = 0; turn < 500; turn++) {
      const headers = { 'x-forwarded-for': '192.0.2.77', 'x-api-key': `made-up-${turn}` };
      if ((await running.get(PATH, forwarded('/', headers))).status === 200) passed++;
    }
    expect(passed).toBe(300);
  });
});
