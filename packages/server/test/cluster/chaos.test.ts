/** Short form of `npm run chaos`, without the bounds that depend on the machine. */
import { execFile, execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';

const pathOf = (name: string): string =>
  fileURLToPath(new URL(`../../../../tools/${name}`, import.meta.url));

const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const SHORT = ['--seconds', '5', '--rate', '100', '--rules', '300', '--lenient'];

beforeAll(() => {
  execFileSync(pathOf('ensure-services'), ['openssl']);
}, 300_000);

test('limits hold and each event is logged once while processes are stopped and killed', {
  timeout: 300_000,
}, async () => {
  const words = [pathOf('chaos/main.mjs'), '--json', ...(isFull ? [] : SHORT)];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  const figures = JSON.parse(stdout);
  expect(figures).toMatchObject({ wrongAdmits: 0, notLoggedOnce: 0, exitCode: 0 });
  expect(figures.events.length).toBeGreaterThanOrEqual(3);
  // Most requests are at workers that were neither stopped nor killed.
  expect(figures.lost).toBeLessThan(figures.requests / 4);
});
