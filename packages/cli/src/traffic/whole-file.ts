/** Files that are there whole or not at all. */
import { createWriteStream, rmSync } from 'node:fs';
import { open, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure, visible } from '../output.ts';

interface Place {
  /** Where the file lies, with links followed. */
  readonly path: string;
  /** A terminal, a pipe or the like is written to, never replaced. */
  readonly isFile: boolean;
}

async function placeOf(path: string): Promise<Place> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) {
    const folder = await realpath(dirname(path));
    return { path: join(folder, basename(path)), isFile: true };
  }
  if (found.isDirectory()) throw Object.assign(new Error('a folder'), { code: 'EISDIR' });
  return found.isFile() ? { path: await realpath(path), isFile: true } : { path, isFile: false };
}

const unfinishedOf = (path: string): string => `${path}.${process.pid}.part`;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such folder',
  ENOTDIR: 'no folder',
  EISDIR: 'a folder',
  EACCES: 'no permission',
  EPERM: 'no permission',
  EROFS: 'a place that cannot be written to',
  ENOSPC: 'no space left',
};

function failure(path: string, error: unknown): Failure {
  if (error instanceof Failure) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const why = code in REASONS ? `${REASONS[code]} (${code})` : code || message;
  return new Failure(`Expected to write \`${visible(path)}\`, got ${why}`);
}

/** Writes beside the place and then puts it there, so that a failure leaves what was there. */
async function put(path: string, write: (to: string) => Promise<void>): Promise<void> {
  try {
    const place = await placeOf(path);
    if (!place.isFile) return await write(place.path);
    const unfinished = unfinishedOf(place.path);
    const release = removeWhenStopped(unfinished);
    try {
      await write(unfinished);
      await rename(unfinished, place.path);
    } finally {
      await rm(unfinished, { force: true });
      release();
    }
  } catch (error) {
    throw failure(path, error);
  }
}

/** Whoever is stopped by Ctrl-C leaves nothing behind either. */
function removeWhenStopped(path: string): () => void {
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const release = (): void => {
    for (const signal of signals) process.off(signal, stopped);
  };
  const stopped = (signal: NodeJS.Signals): void => {
    release();
    rmSync(path, { force: true });
    process.kill(process.pid, signal);
  };
  for (const signal of signals) process.on(signal, stopped);
  return release;
}

export const writeWhole = (path: string, text: string): Promise<void> =>
  put(path, (to) => writeFile(to, text));

/** The same for what is made piece by piece. */
export const pourWhole = (path: string, pieces: Iterable<string>): Promise<void> =>
  put(path, (to) => pipeline(Readable.from(pieces), createWriteStream(to)));

/** Files that will be written, by the flags that name them. */
export type Places = Readonly<Record<string, string | undefined>>;

/**
 * Finds out before the work begins whether its results can be written, and that they replace
 * nothing that is read, nor each other.
 */
export async function checkPlaces(places: Places, read: readonly string[] = []): Promise<void> {
  const taken = new Map<string, string>();
  for (const path of read) {
    // What cannot be found is said by whoever reads it.
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined) taken.set(real, 'a file that is read');
  }
  for (const [flag, path] of Object.entries(places)) {
    if (path === undefined) continue;
    const place = await placeOf(path).catch((error) => {
      throw failure(path, error);
    });
    const other = taken.get(place.path);
    if (other !== undefined && place.isFile) {
      const got = `\`${visible(path)}\`, which is ${other}`;
      throw new Failure(`Expected ${flag} to be a file of its own, got ${got}`);
    }
    taken.set(place.path, `that of ${flag}`);
    if (place.isFile) await tryOut(place.path, path);
  }
}

async function tryOut(place: string, path: string): Promise<void> {
  const unfinished = unfinishedOf(place);
  const release = removeWhenStopped(unfinished);
  try {
    await (await open(unfinished, 'w')).close();
  } catch (error) {
    throw failure(path, error);
  } finally {
    await rm(unfinished, { force: true });
    release();
  }
}
