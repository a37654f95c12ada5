/**
 * The files of the dashboard, read once at the start. A request is served only if its path is the
 * name of one of these files, so no path can reach other files.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';

/** A file of the dashboard, both plain and compressed. */
export interface DashboardFile {
  readonly type: string;
  readonly plain: EncodedFile;
  /** Undefined if the compressed file is not smaller. */
  readonly gzip: EncodedFile | undefined;
}

export interface EncodedFile {
  readonly bytes: Buffer;
  readonly etag: string;
}

/** Files by path below `/dashboard/`. The page itself is `index.html`. */
export type DashboardFiles = ReadonlyMap<string, DashboardFile>;

/** Maximum size of all files together. They stay in memory. */
export const MAX_BYTES = 1024 * 1024;

/** Content types by file extension. Files of other types are not served. */
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
};

function encodedFile(bytes: Buffer): EncodedFile {
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  return { bytes, etag: `"${digest}"` };
}

function fileOf(path: string, type: string): DashboardFile {
  const bytes = readFileSync(path);
  const packed = gzipSync(bytes, { level: 9 });
  const gzip = packed.length < bytes.length ? encodedFile(packed) : undefined;
  return { type, plain: encodedFile(bytes), gzip };
}

/** Reads the page and its assets; throws if the page is missing or the files are too large. */
export function readDashboardFiles(folder: string): DashboardFiles {
  const assets = readdirSync(join(folder, 'assets')).map((name) => `assets/${name}`);
  const files = new Map<string, DashboardFile>();
  let size = 0;
  for (const name of ['index.html', ...assets]) {
    const type = TYPES[extname(name)];
    if (type === undefined) continue;
    const file = fileOf(join(folder, name), type);
    files.set(name, file);
    size += file.plain.bytes.length;
  }
  if (size > MAX_BYTES) {
    throw new Error(`Expected at most ${MAX_BYTES} bytes in the dashboard's files, got ${size}`);
  }
  return files;
}

/** Returns the folder of the installed dashboard; throws if it is not installed. */
function installedFolder(): string {
  const { resolve } = createRequire(import.meta.url);
  return join(dirname(resolve('sluice-dashboard/package.json')), 'dist');
}

let installed: DashboardFiles | undefined;

/**
 * Returns the files of the installed dashboard, or the error if they cannot be read. Reads the
 * files only once.
 */
export function installedFiles(): DashboardFiles | Error {
  try {
    installed ??= readDashboardFiles(installedFolder());
    return installed;
  } catch (error) {
    return error as Error;
  }
}
