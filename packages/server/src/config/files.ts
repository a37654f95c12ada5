/**
 * Reads configuration files as bytes and computes a fingerprint of these bytes. If a file changes
 * while it is parsed, the next fingerprint differs. Reading has a deadline. If the file system does
 * not respond, repeated reads block at most one of the four threads that Node has for files.
 */
import { createHash, type Hash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { readRegularFile } from '../regular-file.ts';
import { withTimeout } from '../with-timeout.ts';
import { MAX_FILE_BYTES } from './source.ts';

/** Deadline for all files together. */
export const READ_DEADLINE_MS = 10_000;

/** A file with its content, or with the reason why it could not be read. */
export interface ConfigFile {
  readonly path: string;
  readonly bytes?: Uint8Array;
  /** Has the form "Expected ..., got ...". */
  readonly problem?: string;
}

export interface ConfigFiles {
  readonly files: readonly ConfigFile[];
  /** A hash of all paths, contents and problems. */
  readonly fingerprint: string;
}

export interface ReadOptions {
  readonly deadlineMs?: number;
  /** Reads one file. Tests replace this function. */
  readonly readFile?: (path: string, maxBytes: number) => Promise<Uint8Array>;
}

/** Reads that have missed their deadline and are still pending, by the list of their paths. */
const overdueReads = new Map<string, Promise<unknown>>();

/** Reads files, and the `*.yaml` and `*.yml` of folders in order of their names. Never rejects. */
export async function readConfigFiles(
  paths: readonly string[],
  { deadlineMs = READ_DEADLINE_MS, readFile = readRegularFile }: ReadOptions = {},
): Promise<ConfigFiles> {
  const id = JSON.stringify(paths);
  const pending = overdueReads.get(id);
  if (pending !== undefined) {
    await withTimeout(deadlineMs, pending);
    if (overdueReads.get(id) === pending) return timedOut(paths, deadlineMs);
  }
  const reading = readAll(paths, readFile);
  const read = await withTimeout(deadlineMs, reading);
  if (read !== undefined) return read;
  overdueReads.set(id, reading);
  void reading.then(() => overdueReads.delete(id));
  return timedOut(paths, deadlineMs);
}

/** Returns the fingerprint of the files as they are now. */
export const fingerprint = async (paths: readonly string[]): Promise<string> =>
  (await readConfigFiles(paths)).fingerprint;

function timedOut([path = '']: readonly string[], deadlineMs: number): ConfigFiles {
  const problem = `Expected the file system to respond within ${deadlineMs} ms, got no response`;
  return { files: [{ path, problem }], fingerprint: 'timed out' };
}

async function readAll(
  paths: readonly string[],
  readFile: NonNullable<ReadOptions['readFile']>,
): Promise<ConfigFiles> {
  const files: ConfigFile[] = [];
  const seen = new Set<string>();
  for (const path of paths) {
    for (const found of await filesAt(path)) {
      // A file can be listed both by itself and through its folder.
      if (seen.has(resolve(found.path))) continue;
      seen.add(resolve(found.path));
      files.push(found.problem === undefined ? await fileAt(found.path, readFile) : found);
    }
  }
  const hash = createHash('sha256');
  for (const file of files) addTo(hash, file);
  return { files, fingerprint: hash.digest('base64') };
}

async function filesAt(path: string): Promise<readonly ConfigFile[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [{ path }];
    const names = (await readdir(path)).filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
    if (names.length > 0) return names.map((name) => ({ path: join(path, name) }));
    return [{ path, problem: 'Expected a folder with files named *.yaml or *.yml, got none' }];
  } catch (error) {
    return [{ path, problem: `Expected a file or folder, got ${causeOf(error)}` }];
  }
}

async function fileAt(
  path: string,
  readFile: NonNullable<ReadOptions['readFile']>,
): Promise<ConfigFile> {
  try {
    return { path, bytes: await readFile(path, MAX_FILE_BYTES + 1) };
  } catch (error) {
    return { path, problem: `Expected a file, got ${causeOf(error)}` };
  }
}

/** Hashes the length before each text, so that `ab` + `c` and `a` + `bc` have different hashes. */
function addTo(hash: Hash, { path, bytes, problem = '' }: ConfigFile): void {
  for (const content of [path, bytes ?? '', problem]) {
    hash.update(`${content.length}:`).update(content);
  }
}

/** Returns the cause, such as `ENOENT: no such file or directory`, without the path. */
const causeOf = (error: unknown): string =>
  (error as Error).message.replace(/, \w+(?: '.*')?$/, '');
