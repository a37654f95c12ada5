/** Logs that are read twice. Standard input can be read once, so it is put into a file first. */
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { STANDARD_INPUT } from 'sluice-traffic';

/** Runs a task on paths that can all be read again, and leaves nothing behind. */
export async function withFiles<T>(
  paths: readonly string[],
  task: (paths: readonly string[]) => Promise<T>,
): Promise<T> {
  if (!paths.includes(STANDARD_INPUT)) return await task(paths);
  const folder = await mkdtemp(join(tmpdir(), 'sluice-'));
  try {
    const file = join(folder, 'input.log');
    await pipeline(process.stdin, createWriteStream(file));
    return await task(paths.map((path) => (path === STANDARD_INPUT ? file : path)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
