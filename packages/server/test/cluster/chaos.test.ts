/** Short form of `npm run chaos`, without the bounds that depend on the machine. */
import { execFile, execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { programOf } from '../../../../tools/test-programs.ts';

const pathOf = (name: string): string =>
  fileURLToPath(new URL(`../../../../tools/${name}`, import.meta.url));

const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const SHORT = ['--seconds', '5', '--rate', '60', '--rules', '100', '--lenient'];

beforeAll(() => {
  execFileSync(pathOf('ensure-services'), ['openssl']);
}, 300_000);

test('limits hold and each event is logged once while processes are stopped and killed', {
  timeout: 300_000,
}, async () => {
  const program = isFull ? [] : ['--program', programOf('sluice')];
  const words = [pathOf('chaos/main.mjs'), '--json', ...program, ...(isFull ? [] : SHORT)];
  // A tool that hangs ends before the test does, and its output is in the error.
  const { stdout } = await promisify(execFile)(process.execPath, words, { timeout: 280_000 });
  const figures = JSON.parse(stdout);
  expect(figures).toMatchObject({ wrongAdmits: 0, notLoggedOnce: 0, exitCode: 0 });
  expect(figures.events.length).toBeGreaterThanOrEqual(3);
  // Most requests are at workers that were neither stopped nor killed.
  expect(figures.lost).toBeLessThan(figures.requests / 4);
});
