import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { programOf } from '../../../tools/test-programs.ts';
import { makeLog } from '../src/observe/log.ts';
import { LogOutput, MAX_WAITING_BYTES, type Sink } from '../src/observe/log-output.ts';

/** Returns a sink that accepts nothing until `open` is called. */
function blockedSink() {
  const written: string[] = [];
  let isOpen = false;
  let resume: (() => void) | undefined;
  const sink: Sink = (text, done) => {
    const take = (): void => {
      written.push(text);
      setImmediate(done);
    };
    if (isOpen) take();
    else resume = take;
  };
  const open = (): void => {
    isOpen = true;
    resume?.();
  };
  return { sink, written, open };
}

describe('LogOutput', () => {
  test('an unread log output drops lines above the limit and reports their number', async () => {
    const { sink, written, open } = blockedSink();
    const output = new LogOutput(sink);
    const log = makeLog({ logLevel: 'info' }, output);
    const filler = 'x'.repeat(1000);
    for (let line = 0; line < 3000; line++) log.info({ filler, line }, 'filled');
    expect(output.dropped).toBeGreaterThan(1500);
    const { dropped } = output;
    open();
    expect(await output.flush(10_000)).toBe(true);
    const lines = written.join('').trimEnd().split('\n');
    expect(Buffer.byteLength(written.join(''))).toBeLessThan(MAX_WAITING_BYTES + 1000);
    const reports = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg !== 'filled');
    expect(reports).toEqual([expect.objectContaining({ dropped, msg: 'log lines dropped' })]);
    expect(lines.length - 1 + dropped).toBe(3000);
  });

  test('flush of an unread log output resolves to false after its timeout', async () => {
    const output = new LogOutput(blockedSink().sink);
    output.write('a\n');
    expect(await output.flush(10)).toBe(false);
  });

  test('log output is written in whole lines, in batches of at most PIPE_BUF bytes', async () => {
    const { sink, written, open } = blockedSink();
    const output = new LogOutput(sink);
    for (let line = 0; line < 100; line++) output.write(`${'y'.repeat(99)}\n`);
    output.write(`${'z'.repeat(9999)}\n`);
    open();
    await output.flush(10_000);
    expect(written.filter((text) => !text.endsWith('\n'))).toEqual([]);
    expect(written.filter(({ length }) => length > 4096)).toEqual([`${'z'.repeat(9999)}\n`]);
  });
});

const children: ChildProcess[] = [];
let folder: string | undefined;
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  if (folder !== undefined) rmSync(folder, { recursive: true });
  folder = undefined;
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const BINARY = programOf('sluice');

describe('a service with an unread standard output', () => {
  test.each([1, 2])(
    'a service with an unread stdout responds, counts dropped lines and exits (workers: %i)',
    async (workers) => {
      folder = mkdtempSync(join(tmpdir(), 'sluice-log-'));
      const config = join(folder, 'sluice.yaml');
      writeFileSync(config, 'policies:\n  none: 1/1h\n');
      const port = await freePort();
      const url = `http://127.0.0.1:${port}`;
      const flags = ['--log-denials', '10000', '--workers', String(workers), '--drain', '1s'];
      const args = [BINARY, 'serve', '--config', config, '--listen', `127.0.0.1:${port}`, ...flags];
      // No byte of the pipe is ever read.
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] });
      children.push(child);
      const ended = once(child, 'exit');
      const healthy = async (): Promise<void> =>
        expect((await fetch(`${url}/healthz`)).status).toBe(200);
      await vi.waitFor(healthy, { timeout: 30_000, interval: 100 });
      const check = { policy: 'none', key: 'k'.repeat(1000) };
      const body = JSON.stringify({ checks: Array(500).fill(check) });
      const text = async (path: string): Promise<string> => (await fetch(url + path)).text();
      const dropped = async (): Promise<number> =>
        Number(/^sluice_log_lines_dropped_total (\d+)/m.exec(await text('/metrics'))?.[1]);
      for (let batch = 0; batch < 12 * workers; batch++) {
        const response = await fetch(`${url}/v1/check`, { method: 'POST', body });
        expect(response.status).toBe(200);
        await response.arrayBuffer();
      }
      await healthy();
      expect(await dropped()).toBeGreaterThan(0);
      child.kill('SIGTERM');
      expect(await ended).toEqual([0, null]);
    },
    90_000,
  );
});
