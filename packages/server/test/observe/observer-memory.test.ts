import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { MIN_SUMMARY_BYTES } from '../../src/observe/heavy-hitters.ts';
import { MAX_LABELS } from '../../src/observe/policy-labels.ts';
import { GENERATION_BYTES } from '../../src/observe/top-keys.ts';

const PROGRAM = fileURLToPath(new URL('observer-memory.mjs', import.meta.url));
const SERVICE = fileURLToPath(new URL('service-memory.mjs', import.meta.url));
const MB = 1024 * 1024;

test('top keys and history of 1,000 policies keep to their memory bounds', async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--expose-gc', PROGRAM]);
  const { usedOnce, flooded, quiet, enforced, shadowed } = JSON.parse(stdout);
  expect(usedOnce).toBeLessThan(16 * MB);
  // Two generations, each with a budget and the minimum size of two summaries per policy.
  const maxGenerationBytes = GENERATION_BYTES + 2 * MAX_LABELS * MIN_SUMMARY_BYTES;
  expect(flooded).toBeLessThan(2 * maxGenerationBytes + usedOnce);
  expect(quiet).toBeLessThan(usedOnce);
  const operations = readFileSync(
    new URL('../../../../docs/operations.md', import.meta.url),
    'utf8',
  );
  const [, most, mostInShadow] = /^\| History .* (\d+) KB per policy, (\d+) KB/m.exec(operations)!;
  expect(enforced).toBeLessThan(Number(most) * 1000);
  expect(shadowed).toBeLessThan(Number(mostInShadow) * 1000);
});

test('the first request of each of 1,000 policies adds at most 20 MB to a service', async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ['--expose-gc', SERVICE]);
  expect(Number(stdout)).toBeGreaterThan(0);
  expect(Number(stdout)).toBeLessThan(20 * MB);
});
