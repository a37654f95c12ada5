/** Configuration from the disk: files, and folders of files. */
import { open, readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from './model.ts';
import { Problems } from './problems.ts';
import { readFiles } from './read.ts';
import { type ConfigText, LARGEST_FILE_BYTES } from './source.ts';

/**
 * Reads files, and of folders the `*.yaml` and `*.yml` in them by name. Throws a `ConfigError` with
 * everything that is wrong with any of them, be it that they cannot be read.
 */
export async function loadConfig(paths: readonly string[]): Promise<Config> {
  const problems = new Problems();
  const files: string[] = [];
  for (const path of paths) files.push(...(await filesAt(path, problems)));
  const texts: ConfigText[] = [];
  for (const path of eachOnce(files)) {
    const text = await textOf(path, problems);
    if (text !== undefined) texts.push({ path, text });
  }
  return readFiles(texts, problems);
}

/** A file may be named by itself and by its folder. */
function eachOnce(paths: readonly string[]): readonly string[] {
  const byPlace = new Map<string, string>();
  for (const path of paths) if (!byPlace.has(resolve(path))) byPlace.set(resolve(path), path);
  return [...byPlace.values()];
}

async function filesAt(path: string, problems: Problems): Promise<readonly string[]> {
  problems.announce(path);
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = (await readdir(path)).filter((name) => /^[^.].*\.ya?ml$/.test(name)).sort();
    if (names.length > 0) return names.map((name) => join(path, name));
    problems.add(path, 1, 1, 'Expected a folder with files named *.yaml or *.yml, got none');
  } catch (error) {
    problems.add(path, 1, 1, `Expected a file or folder, got ${causeOf(error)}`);
  }
  return [];
}

async function textOf(path: string, problems: Problems): Promise<string | undefined> {
  problems.announce(path);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await bytesOf(path));
  } catch (error) {
    const isText = error instanceof TypeError;
    const message = isText
      ? 'Expected UTF-8, got something else'
      : `Expected a file, got ${causeOf(error)}`;
    problems.add(path, 1, 1, message);
    return undefined;
  }
}

/** Not more than a little over what is allowed, however long the file, or the device, is. */
async function bytesOf(path: string): Promise<Uint8Array> {
  const file = await open(path);
  try {
    const bytes = new Uint8Array(LARGEST_FILE_BYTES + 1);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await file.close();
  }
}

/** `ENOENT: no such file or directory`, without the path, which stands before it anyway. */
const causeOf = (error: unknown): string =>
  (error as Error).message.replace(/, \w+(?: '.*')?$/, '');
