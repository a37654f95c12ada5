/** A full disk under standard output, and logs that plan sorts or rejects. */
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, expect, test, vi } from 'vitest';
import { binary, type Ended, Process, scratch, sluice } from './running.ts';

const file = scratch();
const policy = file('limits.yaml', 'policies:\n  p: 5/1m\n');

/** Runs a command whose standard output is a full disk. */
const onFullDisk = (args: readonly string[]): Process => {
  const command = [process.execPath, binary, ...args].map((arg) => `'${arg}'`).join(' ');
  return new Process('sh', ['-c', `exec ${command} > /dev/full`], {});
};

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe.skipIf(!existsSync('/dev/full'))('standard output on a full disk', () => {
  test('the service reports a full disk once, keeps serving and stops on SIGTERM', async () => {
    const port = await freePort();
    const args = ['serve', '--config', policy, '--listen', `127.0.0.1:${port}`];
    const running = onFullDisk(args);
    const status = async (): Promise<number> =>
      (await fetch(`http://127.0.0.1:${port}/healthz`)).status;
    await vi.waitFor(async () => expect(await status()).toBe(200), { timeout: 60_000 });
    // Signals are handled before the first log line, which follows the start of listening.
    await vi.waitFor(() => expect(running.stderr).toContain('ENOSPC'), { timeout: 60_000 });
    expect(await status()).toBe(200);
    running.child.kill('SIGTERM');
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([0, 'Log not written (ENOSPC); the service continues.\n']);
  });

  test.each([[['generate', 'steady', '--requests', '10']], [['validate', policy]]])(
    'sluice %s reports a full disk and exits with 2',
    async (args) => {
      const { code, stderr } = await onFullDisk(args).ended;
      expect([code, stderr]).toEqual([
        2,
        'error: Expected a writable standard output, got ENOSPC\n',
      ]);
    },
  );
});

describe('logs that plan sorts or rejects', () => {
  const line = (second: number): string =>
    JSON.stringify({ time: new Date(1.8e12 + 1000 * second).toISOString(), ip: '192.0.2.1' });
  const seconds = Array.from({ length: 300 }, (_, second) => second);
  const log = file('log.jsonl', seconds.map(line).join('\n'));
  const planned = (...logs: string[]): Promise<Ended> =>
    sluice(['plan', ...logs, '--policy', policy]);

  test('plan sorts a log in reverse order', async () => {
    const reversed = file('reversed.jsonl', seconds.reverse().map(line).join('\n'));
    const { code, stdout } = await planned(reversed);
    expect(code).toBe(0);
    expect(stdout.replace('reversed.jsonl', '')).not.toContain('out of order');
    expect((await planned(log)).code).toBe(0);
  });

  test('plan rejects a log that is given twice', async () => {
    const { code, stderr } = await planned(log, log);
    expect([code, stderr.replace(/\s+/g, ' ')]).toEqual([
      2,
      `error: Expected each log once, got ${log} twice `,
    ]);
  });
});
