/**
 * Runs test vectors (calls and their expected decisions) on a store:
 *
 *     npm run conformance -- --store memory FILE...
 *     npm run conformance -- --store redis://HOST:PORT [--client NAME] FILE...
 *
 * --client is a Redis client or `all` (default: ioredis). Prints `N passed, N failed` and the first
 * differences. Exits with 1 if a decision differs, with 2 for invalid arguments or files, or if
 * Redis is unreachable.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { memoryStore } from 'sluice';
import { redisStore } from 'sluice/redis';
import { parseVectors, runVectors } from 'sluice/testing';
import { clients } from './servers/clients.mjs';

const USAGE =
  'usage: npm run conformance -- --store memory|redis://HOST:PORT [--client NAME|all] FILE...';
const DIFFERENCES_SHOWN = 5;
/** Timeout of a call. Long enough for a remote or busy server: vectors do not test speed. */
const DEADLINE_MS = 5000;

function fail(message) {
  console.error(message);
  process.exit(2);
}

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      options: { store: { type: 'string', default: 'memory' }, client: { type: 'string' } },
      allowPositionals: true,
    });
    const { store, client } = values;
    if (positionals.length === 0) fail(`Expected at least one vector file\n${USAGE}`);
    if (store === 'memory') {
      if (client !== undefined) fail(`Expected --client only with a store in Redis\n${USAGE}`);
      return { store, names: ['memory'], files: positionals };
    }
    if (!/^rediss?:\/\/[^/]/.test(store)) {
      fail(`Expected --store to be memory or redis://HOST:PORT, got ${store}`);
    }
    const names = client === 'all' ? Object.keys(clients) : [client ?? 'ioredis'];
    if (names.some((name) => !Object.hasOwn(clients, name))) {
      fail(
        `Expected --client to be all or one of ${Object.keys(clients).join(' ')}, got ${client}`,
      );
    }
    return { store, names, files: positionals };
  } catch (error) {
    return fail(`${error.message}\n${USAGE}`);
  }
}

/**
 * Returns a function that opens a store for one test case, and a function that closes the client.
 */
async function openWith(name, url) {
  if (name === 'memory') return { open: () => memoryStore(), close: async () => {} };
  const { client, close } = await Promise.race([
    clients[name](url),
    new Promise((_, reject) => {
      setTimeout(reject, DEADLINE_MS, new Error('no connection')).unref();
    }),
  ]).catch((error) => fail(`${name} cannot reach ${url}: ${error.message || error}`));
  // Use a new key prefix for each case, because other runs may use the same Redis.
  const run = `conformance-${process.pid}-${Date.now()}`;
  let opened = 0;
  const open = () =>
    redisStore(client, {
      prefix: `${run}-${opened++}:`,
      onFailure: 'throw',
      deadlineMs: DEADLINE_MS,
    });
  return { open, close };
}

function readVectors(file) {
  try {
    return parseVectors(readFileSync(file, 'utf8'));
  } catch (error) {
    return fail(`${file}: ${error.message}`);
  }
}

function show(file, { differences }) {
  for (const { name, step, expected, got } of differences.slice(0, DIFFERENCES_SHOWN)) {
    console.log(`${file}: ${name}, step ${step}`);
    console.log(`  expected ${JSON.stringify(expected)}`);
    console.log(`  got      ${JSON.stringify(got)}`);
  }
}

const { store, names, files } = readArguments();
const vectors = files.map((file) => [file, readVectors(file)]);
let passed = 0;
let failed = 0;
for (const name of names) {
  const { open, close } = await openWith(name, store);
  const before = passed;
  for (const [file, cases] of vectors) {
    const report = await runVectors(cases, open);
    passed += report.passed;
    failed += report.failed;
    show(file, report);
  }
  if (names.length > 1) console.log(`${name}: ${passed - before} passed`);
  await close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
