/** Two instances never write the same file, and a stale lock does not keep an instance out. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { programOf } from '../../../tools/test-programs.ts';
import { FileLock, LockedError } from '../src/file-lock.ts';
import { RunningGroup } from './cluster/running-group.ts';
import { policy, startRunning } from './running.ts';

let folder: string;
let file: string;
let lockPath: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'));
  file = join(folder, 'overrides.json');
  lockPath = `${file}.lock`;
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

const policies = [policy('few', 2, '1m')];
const start = () => startRunning({ config: { policies }, settings: { overridesFile: file } });

/** Starts a service with the same overrides file as a separate process. */
async function startProcess(): Promise<ChildProcess> {
  const config = join(folder, 'sluice.yaml');
  writeFileSync(config, 'policies:\n  few: 2/1m\n');
  const flags = JSON.stringify({ listen: '127.0.0.1:0', overridesFile: file, drainMs: '100ms' });
  const child = fork(programOf('stop-service'), [flags, config], {
    silent: true,
  });
  children.push(child);
  let errors = '';
  child.stderr!.on('data', (chunk) => {
    errors += chunk;
  });
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(errors)));
  await Promise.race([once(child, 'message'), ended]);
  ended.catch(() => {});
  return child;
}

const TAKEN = /Expected a file that no other instance uses, got one that process \d+ on \S+ uses/;

describe('instances that share an overrides file', () => {
  test('an instance does not start while another process uses its overrides file', async () => {
    const first = await startProcess();
    await expect(start()).rejects.toThrow(TAKEN);
    first.kill('SIGTERM');
    await once(first, 'exit');
    expect(existsSync(lockPath)).toBe(false);
    const second = await start();
    await second.close();
  });

  test('two instances in one process cannot use the same overrides file', async () => {
    const first = await start();
    await expect(start()).rejects.toThrow('another service of this process');
    await first.close();
    await (await start()).close();
  });

  test('an instance does not start while workers use its overrides file', {
    timeout: 60_000,
  }, async () => {
    const group = await RunningGroup.start({
      config: { policies },
      settings: { overridesFile: file },
    });
    await expect(start()).rejects.toThrow(TAKEN);
    await group.stop();
    await (await start()).close();
  });

  test('an instance can use the overrides file of an instance that was killed', async () => {
    const first = await startProcess();
    first.kill('SIGKILL');
    await once(first, 'exit');
    expect(existsSync(lockPath)).toBe(true);
    await (await start()).close();
    expect(existsSync(lockPath)).toBe(false);
  });

  test('an instance that fails to start releases its overrides file', async () => {
    const other = await startRunning();
    const { host, port } = other.service.http;
    const settings = { overridesFile: file, listen: `${host}:${port}` };
    await expect(startRunning({ config: { policies }, settings })).rejects.toThrow('EADDRINUSE');
    await (await start()).close();
    await other.close();
  });
});

describe('FileLock', () => {
  const ownerNow = async (): Promise<Record<string, unknown>> => {
    const lock = await FileLock.take(file);
    const owner = JSON.parse(readFileSync(lockPath, 'utf8'));
    await lock.release();
    return owner;
  };

  test('a file lock whose pid was reused is taken over at once', async () => {
    const owner = await ownerNow();
    // Process 1 exists, but has another start time.
    writeFileSync(lockPath, JSON.stringify({ ...owner, pid: 1, startTime: '1' }));
    await (await FileLock.take(file)).release();
  });

  test('a file lock of another container is respected while its file is touched', async () => {
    const owner = await ownerNow();
    writeFileSync(lockPath, JSON.stringify({ ...owner, pid: 1, pidScope: 'another container' }));
    const text = readFileSync(lockPath, 'utf8');
    const touching = setInterval(() => writeFileSync(lockPath, text), 100);
    await expect(FileLock.take(file, 5000)).rejects.toBeInstanceOf(LockedError);
    clearInterval(touching);
    await (await FileLock.take(file, 600)).release();
  });

  test('a stale file lock of another container is taken over at once', async () => {
    const owner = await ownerNow();
    writeFileSync(lockPath, JSON.stringify({ ...owner, pid: 1, pidScope: 'another container' }));
    utimesSync(lockPath, 1, 1);
    await (await FileLock.take(file, 3_600_000)).release();
  });

  test.each(['', 'nonsense', '{}'])(
    'a stale file lock with the content %j is taken over',
    async (text) => {
      writeFileSync(lockPath, text);
      await (await FileLock.take(file, 600)).release();
    },
  );

  test('one of many concurrent instances takes over a stale file lock', async () => {
    const owner = await ownerNow();
    writeFileSync(lockPath, JSON.stringify({ ...owner, pid: 1, startTime: '1' }));
    const tries = Array.from({ length: 10 }, () => FileLock.take(file));
    const results = await Promise.allSettled(tries);
    const taken = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    expect(taken).toHaveLength(1);
    await taken[0].release();
  });
});
