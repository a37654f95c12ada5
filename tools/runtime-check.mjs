/**
 * Tests the library on runtimes that cannot run Vitest, such as Bun and Deno: runs the test
 * vectors, the store contract, and the adapter contract on the runtime's own HTTP server.
 */
import { readFileSync } from 'node:fs';
import { rateLimit } from '../packages/sluice/lib/fetch.js';
import { memoryStore } from '../packages/sluice/lib/index.js';
import {
  adapterContract,
  parseVectors,
  runVectors,
  storeContract,
} from '../packages/sluice/lib/testing.js';

const VECTORS = new URL('../packages/sluice/test/vectors/decisions.json', import.meta.url);

/** Starts a handler on the runtime's HTTP server. */
async function listen(handle) {
  if (globalThis.Bun !== undefined) {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: handle });
    return { port: server.port, close: () => server.stop(true) };
  }
  const control = new AbortController();
  const { signal } = control;
  const quiet = { port: 0, hostname: '127.0.0.1', signal, onListen: () => {} };
  const server = Deno.serve(quiet, handle);
  return {
    port: server.addr.port,
    close: async () => {
      control.abort();
      await server.finished;
    },
  };
}

const adapter = {
  header: (request, name) => request.headers.get(name) ?? undefined,
  async serve(options) {
    let reached = 0;
    const limited = rateLimit(options)(async (request) => {
      reached++;
      const waitMs = Number(request.headers.get('x-wait') ?? 0);
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      return new Response('hello', { status: Number(request.headers.get('x-status') ?? 200) });
    });
    const handle = (request, info) =>
      limited(request, info).catch(({ status }) => new Response(null, { status: status ?? 500 }));
    const { port, close } = await listen(handle);
    return { port, reached: () => reached, close: async () => close() };
  },
};

let passed = 0;
const problems = [];

async function check(name, test) {
  try {
    await test();
    passed++;
  } catch (error) {
    problems.push(`${name}: ${error?.message ?? error}`);
  }
}

await check('vectors', async () => {
  const report = await runVectors(parseVectors(readFileSync(VECTORS, 'utf8')), () => memoryStore());
  if (report.failed > 0 || report.passed === 0) throw new Error(JSON.stringify(report));
});
for (const { name, run } of storeContract) await check(name, () => run(() => memoryStore()));
for (const { name, run } of adapterContract) {
  await check(name, () => run(adapter, () => memoryStore()));
}
for (const problem of problems) console.log(problem);
console.log(`${passed} passed, ${problems.length} failed`);
process.exit(problems.length > 0 ? 1 : 0);
