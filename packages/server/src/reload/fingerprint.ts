/** Whether files have changed: their contents in a few bytes, however they came to be there. */
import { createHash, type Hash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

const MOST_BYTES = 16 * 1024 * 1024;

/** The same for the same contents. That something cannot be read is a content too. */
export async function fingerprint(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  for (const path of paths) await addPath(hash, path);
  return hash.digest('base64');
}

async function addPath(hash: Hash, path: string): Promise<void> {
  add(hash, path);
  try {
    const found = await stat(path);
    if (!found.isDirectory()) return await addFile(hash, path, found);
    const names = (await readdir(path)).filter((name) => /\.ya?ml$/.test(name)).sort();
    for (const name of names) {
      add(hash, name);
      await addFile(hash, join(path, name), await stat(join(path, name)));
    }
  } catch (error) {
    add(hash, (error as NodeJS.ErrnoException).code ?? 'unreadable');
  }
}

/** What is too long to be read, or a pipe that can be read only once, goes by its length. */
async function addFile(hash: Hash, path: string, found: Stats): Promise<void> {
  const isReadable = found.isFile() && found.size <= MOST_BYTES;
  add(hash, isReadable ? await readFile(path) : String(found.size));
}

/** With its length first, so that no two lists of contents look alike. */
function add(hash: Hash, content: string | Buffer): void {
  hash.update(`${content.length}:`).update(content);
}
