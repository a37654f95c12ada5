/** Decisions continue while a large configuration is reloaded. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { programOf } from '../../../tools/test-programs.ts';
import { Connection } from './cluster/connection.ts';

const PROGRAM = programOf('sluice');
const RULES = 1500;
const CONNECTIONS = 4;
/** The longest wait of a decision, as a part of the time of the reload. */
const MAX_PART = 1 / 4;

let folder: string;
let service: ChildProcess;
let output: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-reload-'));
  output = '';
});
afterEach(async () => {
  const ended = once(service, 'exit');
  service.kill('SIGKILL');
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

function write(limit: number): string {
  const numbers = Array.from({ length: RULES }, (_, at) => at);
  const text = [
    'policies:',
    '  hot: { limit: 1000000000, window: 1h }',
    ...numbers.map((at) => `  p${at}: { limit: ${limit}, window: 1m }`),
    'rules:',
    ...numbers.map(
      (at) => `  - { match: { path: /a${at}/** }, limits: [{ policy: p${at}, key: address }] }`,
    ),
  ].join('\n');
  const file = join(folder, 'sluice.yaml');
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
  return file;
}

async function start(workers: number): Promise<number> {
  const settings = { config: write(1), listen: '127.0.0.1:0', workers, deadline: '10s' };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  service = spawn(process.execPath, [PROGRAM, 'serve', ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  service.stdout?.setEncoding('utf8').on('data', (piece) => {
    output += piece;
  });
  const address = /"url":"http:\/\/127\.0\.0\.1:(\d+)"/;
  await vi.waitUntil(() => address.test(output), { timeout: 60_000, interval: 20 });
  return Number(address.exec(output)![1]);
}

describe.each([1, 2])('with %i process(es)', (workers) => {
  test(`with ${workers} process(es), a reload delays decisions by at most a quarter of its time`, {
    timeout: 180_000,
  }, async () => {
    const port = await start(workers);
    const open = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => Connection.open(port)),
    );
    const waits: number[] = [];
    let isOver = false;
    const clients = open.map(async (each) => {
      while (!isOver) {
        const startMs = performance.now();
        expect((await each.check({ policy: 'hot', key: 'k' })).json.allowed).toBe(true);
        waits.push(performance.now() - startMs);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    });
    const admin = await Connection.open(port);
    const parts: number[] = [];
    // The machine may pause during one of the reloads, so up to three are measured.
    for (let limit = 2; limit <= 4 && !parts.some((part) => part < MAX_PART); limit++) {
      write(limit);
      waits.length = 0;
      const startMs = performance.now();
      const { status } = await admin.post('/v1/reload', [''])[0];
      const tookMs = performance.now() - startMs;
      // Requests sent before the end of the reload have responses by now.
      await Promise.all(open.map((each) => each.check({ policy: 'hot', key: 'k' })));
      expect(status).toBe(200);
      parts.push(Math.max(...waits) / tookMs);
      const { json } = await admin.check({ policy: 'p7', key: `${limit}` });
      expect(json.limit).toBe(limit);
    }
    isOver = true;
    await Promise.all(clients);
    for (const each of [...open, admin]) each.close();
    expect(Math.min(...parts)).toBeLessThan(MAX_PART);
  });
});
