/** Many processes on few keys. Afterwards the test checks each decision that the processes got. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { startCluster, startRedis } from '../../../../tools/servers/redis.mjs';
import { slotOf } from '../../src/stores/redis/keys.ts';

const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const DECISIONS = isFull ? 1_000_000 : 6000;
const PROCESSES = isFull ? 8 : 3;
const KEYS = 4;
/** About half of the costs that each key gets within a second. */
const LIMIT = isFull ? 20_000 : 4000;
const WINDOW_MS = 1000;

interface Row {
  readonly atMs: number;
  readonly cost: number;
  readonly allowed: boolean;
  readonly remaining: number;
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-contention-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the processes. Returns the decisions that they got, by key. */
async function runProcesses(name: string, options: object): Promise<Row[][]> {
  const files = Array.from({ length: PROCESSES }, (_, number) => join(folder, `${name}-${number}`));
  await Promise.all(
    files.map((file, number) => {
      const settings = JSON.stringify({
        ...options,
        prefix: `${name}:`,
        policy: { limit: LIMIT, window: WINDOW_MS },
        keys: KEYS,
        decisions: DECISIONS / PROCESSES,
        inFlight: 64,
        seed: number + 1,
        file,
      });
      const worker = new URL('hot-keys-worker.mjs', import.meta.url).pathname;
      const child = spawn(process.execPath, [worker, settings], { stdio: ['ignore', 2, 2] });
      return new Promise<void>((resolve, reject) => {
        child.on('error', reject);
        child.on('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}`))));
      });
    }),
  );
  const byKey: Row[][] = Array.from({ length: KEYS }, () => []);
  for (const file of files) {
    const bytes = readFileSync(file);
    const numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
    for (let at = 0; at < numbers.length; at += 5) {
      const [key, atMs, cost, allowed, remaining] = numbers.subarray(at, at + 5);
      byKey[key].push({ atMs, cost, allowed: allowed === 1, remaining });
    }
  }
  return byKey;
}

/** The number of decisions of one key, and of wrong ones among them. */
interface Findings {
  admitted: number;
  denied: number;
  /** Windows with more than the limit. */
  over: number;
  /** Denials of costs that fit, and decisions that fit no order. */
  wrong: number;
}

/**
 * Checks the decisions of one key. Within one millisecond no entry expires, so `remaining` orders
 * the admissions and determines the place of each denial among them.
 */
function checkDecisions(rows: Row[]): Findings {
  const findings = { admitted: 0, denied: 0, over: 0, wrong: 0 };
  rows.sort((a, b) => a.atMs - b.atMs || b.remaining - a.remaining);
  const admitted: Row[] = [];
  let head = 0;
  let used = 0;
  for (let from = 0; from < rows.length; ) {
    const { atMs } = rows[from];
    let upTo = from;
    while (upTo < rows.length && rows[upTo].atMs === atMs) upTo++;
    for (; head < admitted.length && admitted[head].atMs <= atMs - WINDOW_MS; head++) {
      used -= admitted[head].cost;
    }
    const moment = rows.slice(from, upTo);
    const remains = new Set([LIMIT - used]);
    for (const row of moment.filter(({ allowed }) => allowed)) {
      used += row.cost;
      admitted.push(row);
      remains.add(LIMIT - used);
      if (used > LIMIT) findings.over++;
      if (row.remaining !== LIMIT - used) findings.wrong++;
      findings.admitted++;
    }
    for (const row of moment.filter(({ allowed }) => !allowed)) {
      if (!remains.has(row.remaining) || row.cost <= row.remaining) findings.wrong++;
      findings.denied++;
    }
    from = upTo;
  }
  return findings;
}

function expectExact(name: string, byKey: Row[][]): void {
  const allFindings = byKey.map(checkDecisions);
  const sum = (field: keyof Findings): number =>
    allFindings.reduce((total, findings) => total + findings[field], 0);
  const counts = { admitted: sum('admitted'), denied: sum('denied') };
  if (isFull) console.log(name, { ...counts, over: sum('over'), wrong: sum('wrong') });
  expect({ over: sum('over'), wrong: sum('wrong') }).toEqual({ over: 0, wrong: 0 });
  expect(counts.admitted + counts.denied).toBe(DECISIONS);
  expect(counts.admitted).toBeGreaterThan(0);
}

describe('checkDecisions', () => {
  const row = (atMs: number, cost: number, allowed: boolean, remaining: number): Row => ({
    atMs,
    cost,
    allowed,
    remaining,
  });

  it('checkDecisions detects a window above the limit', () => {
    expect(checkDecisions([row(5, LIMIT, true, 0), row(6, 1, true, 0)]).over).toBe(1);
  });

  it('checkDecisions detects a denial of a cost that fits', () => {
    expect(checkDecisions([row(5, 5, true, LIMIT - 5), row(6, 3, false, LIMIT - 5)]).wrong).toBe(1);
  });

  it('checkDecisions detects decisions that no order of execution explains', () => {
    expect(checkDecisions([row(5, 5, true, LIMIT - 5), row(5, 5, true, LIMIT - 5)]).wrong).toBe(1);
  });
});

describe(`${PROCESSES} processes on ${KEYS} hot keys`, () => {
  it('concurrent processes never exceed the limit, and no cost that fits is denied', async () => {
    const server = await startRedis();
    try {
      expectExact('standalone', await runProcesses('hot', { url: server.url }));
    } finally {
      await server.stop();
    }
  });

  it('concurrent processes get exact decisions while the slot of a key is migrated', async () => {
    const cluster = await startCluster({ nodeTimeoutMs: 30_000 });
    try {
      const nodes = cluster.nodes.map(({ host, port }) => ({ host, port }));
      const slot = slotOf('moved:{key-0}');
      let isOver = false;
      const moves = (async () => {
        let count = 0;
        while (!isOver) {
          const owner = await cluster.ownerOf(slot);
          await cluster.moveSlot(slot, (owner + 1) % 3);
          count++;
        }
        return count;
      })();
      const running = runProcesses('moved', { nodes }).finally(() => {
        isOver = true;
      });
      const [byKey, count] = await Promise.all([running, moves]);
      if (isFull) console.log(`the slot was moved ${count} times`);
      expect(count).toBeGreaterThan(0);
      expectExact('cluster', byKey);
    } finally {
      await cluster.stop();
    }
  });
});
