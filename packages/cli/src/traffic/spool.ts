/** Copies standard input to a temporary file, for commands that read a log twice. */
import { createWriteStream, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { STANDARD_INPUT } from 'sluice-traffic';
import { removeOnSignal } from './on-signal.ts';

/**
 * Runs a task with paths that it can read repeatedly: copies standard input to a temporary file,
 * and deletes the file after the task.
 */
export async function withFiles<T>(
  paths: readonly string[],
  task: (paths: readonly string[]) => Promise<T>,
): Promise<T> {
  if (!paths.includes(STANDARD_INPUT)) return await task(paths);
  // Create the folder synchronously, so that no signal arrives before its handler is added.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'));
  const release = removeOnSignal(folder);
  try {
    const file = join(folder, 'input.log');
    await pipeline(process.stdin, createWriteStream(file));
    return await task(paths.map((path) => (path === STANDARD_INPUT ? file : path)));
  } finally {
    await rm(folder, { recursive: true, force: true });
    release();
  }
}
