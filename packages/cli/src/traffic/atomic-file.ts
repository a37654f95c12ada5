/** Writes files atomically: a temporary file beside the target, then a rename. */
import { createWriteStream } from 'node:fs';
import { open, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure, visible } from '../output.ts';
import { removeOnSignal } from './on-signal.ts';

interface Target {
  /** The path with symbolic links resolved. */
  readonly path: string;
  /** False for a device or pipe, which is written to directly. */
  readonly isFile: boolean;
}

async function targetOf(path: string): Promise<Target> {
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

const temporaryPath = (path: string): string => `${path}.${process.pid}.part`;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such folder',
  ENOTDIR: 'a path through a file',
  EISDIR: 'a folder',
  EACCES: 'no permission',
  EPERM: 'no permission',
  EROFS: 'a read-only file system',
  ENOSPC: 'no space left',
};

function failure(path: string, error: unknown): Failure {
  if (error instanceof Failure) return error;
  const { code = '', message } = error as NodeJS.ErrnoException;
  const why = code in REASONS ? `${REASONS[code]} (${code})` : code || message;
  return new Failure(`Expected to write \`${visible(path)}\`, got ${why}`);
}

async function replace(path: string, write: (to: string) => Promise<void>): Promise<void> {
  try {
    const target = await targetOf(path);
    if (!target.isFile) return await write(target.path);
    const temporary = temporaryPath(target.path);
    const release = removeOnSignal(temporary);
    try {
      await write(temporary);
      await rename(temporary, target.path);
    } finally {
      await rm(temporary, { force: true });
      release();
    }
  } catch (error) {
    throw failure(path, error);
  }
}

export const writeAtomic = (path: string, text: string): Promise<void> =>
  replace(path, (to) => writeFile(to, text));

/** Like `writeAtomic`, for text generated in chunks. */
export const writeAtomicChunks = (path: string, chunks: Iterable<string>): Promise<void> =>
  replace(path, (to) => pipeline(Readable.from(chunks), createWriteStream(to)));

/** Output files by flag. */
export type OutputFiles = Readonly<Record<string, string | undefined>>;

/**
 * Throws a `Failure` if an output file is not writable, is also an input file, or is given twice.
 * Commands call this before they read their input.
 */
export async function checkOutputFiles(
  files: OutputFiles,
  read: readonly string[] = [],
): Promise<void> {
  const taken = new Map<string, string>();
  for (const path of read) {
    // A missing input file is reported when it is read.
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined) taken.set(real, 'an input file');
  }
  for (const [flag, path] of Object.entries(files)) {
    if (path === undefined) continue;
    const target = await targetOf(path).catch((error) => {
      throw failure(path, error);
    });
    const other = taken.get(target.path);
    if (other !== undefined && target.isFile) {
      const got = `\`${visible(path)}\`, which is ${other}`;
      throw new Failure(`Expected ${flag} to be a separate file, got ${got}`);
    }
    taken.set(target.path, `also ${flag}`);
    if (target.isFile) await checkWritable(target.path, path);
  }
}

async function checkWritable(target: string, path: string): Promise<void> {
  const temporary = temporaryPath(target);
  const release = removeOnSignal(temporary);
  try {
    await (await open(temporary, 'w')).close();
  } catch (error) {
    throw failure(path, error);
  } finally {
    await rm(temporary, { force: true });
    release();
  }
}
