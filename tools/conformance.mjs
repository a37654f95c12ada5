/**
 * Runs vector files on a store: `npm run conformance -- --store memory FILE...`
 *
 * Prints `N passed, N failed` and the first differences. Exit code 1 if a decision differs, 2 if
 * the command or a file cannot be understood.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { memoryStore } from 'sluice';
import { parseVectors, runVectors } from 'sluice/testing';

const USAGE = 'usage: npm run conformance -- --store memory FILE...';
const DIFFERENCES_SHOWN = 5;

const stores = { memory: () => memoryStore() };

function fail(message) {
  console.error(message);
  process.exit(2);
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      options: { store: { type: 'string', default: 'memory' } },
      allowPositionals: true,
    });
    if (positionals.length === 0) fail(`Expected at least one vector file\n${USAGE}`);
    if (!Object.hasOwn(stores, values.store)) {
      fail(`Expected --store to be one of ${Object.keys(stores).join(' ')}, got ${values.store}`);
    }
    return { openStore: stores[values.store], files: positionals };
  } catch (error) {
    return fail(`${error.message}\n${USAGE}`);
  }
}

function readVectors(file) {
  try {
    return parseVectors(readFileSync(file, 'utf8'));
  } catch (error) {
    return fail(`${file}: ${error.message}`);
  }
}

const { openStore, files } = readArguments();
let passed = 0;
let failed = 0;
for (const file of files) {
  const report = await runVectors(readVectors(file), openStore);
  passed += report.passed;
  failed += report.failed;
  for (const { name, step, expected, got } of report.differences.slice(0, DIFFERENCES_SHOWN)) {
    console.log(`${file}: ${name}, step ${step}`);
    console.log(`  expected ${JSON.stringify(expected)}`);
    console.log(`  got      ${JSON.stringify(got)}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
