/** Where lines come from: files, standard input, packed by gzip or zstd or not at all. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { LineSplitter } from './lines.ts';

/** Stands for standard input among paths. */
export const STANDARD_INPUT = '-';

/** How a path is called to people. */
export const nameOf = (path: string): string => (path === STANDARD_INPUT ? 'standard input' : path);

/** What cannot be read at all, as opposed to lines that cannot be understood. */
export class LogError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'LogError';
  }
}

/** How much has been read of how much, in bytes as they lie on the disk. */
export interface Progress {
  bytesRead: number;
  /** Undefined for standard input and pipes, which do not say. */
  readonly bytesTotal: number | undefined;
}

const CHUNK_BYTES = 64 * 1024;

type Packing = 'none' | 'gzip' | 'zstd';

const MAGIC: readonly [Packing, readonly number[]][] = [
  ['gzip', [0x1f, 0x8b]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
];
const MAGIC_BYTES = 4;

const packingOf = (start: Uint8Array): Packing =>
  MAGIC.find(([, bytes]) => bytes.every((byte, at) => start[at] === byte))?.[0] ?? 'none';

/** Newer versions of Node can read zstd; older ones have no such function. */
const zstd = (zlib as { createZstdDecompress?: typeof zlib.createGunzip }).createZstdDecompress;

function unpacker(packing: Packing, name: string): zlib.Gunzip | undefined {
  if (packing === 'none') return undefined;
  const unpack = packing === 'gzip' ? zlib.createGunzip : zstd;
  if (unpack !== undefined) return unpack({ chunkSize: CHUNK_BYTES });
  throw new LogError(
    `Expected ${name} to be plain or packed by gzip, got zstd, which Node ` +
      `${process.versions.node} cannot read: unpack it with zstdcat and read \`-\``,
  );
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EISDIR: 'a folder',
  EACCES: 'one that may not be read',
};

/** An error of the system or of an unpacker, in words. */
function logError(name: string, error: unknown): LogError {
  if (error instanceof LogError) return error;
  const { code = '', message } = error as { code?: string; message: string };
  const isPacking = /^Z/.test(code);
  const wanted = isPacking ? 'to be whole' : 'to be a file that can be read';
  const got = isPacking ? `packed data with an error: ${message}` : (REASONS[code] ?? message);
  return new LogError(`Expected ${name} ${wanted}, got ${got}`, { cause: error });
}

/** The bytes of one path, unpacked. It is opened once, so that it may be a pipe. */
async function* bytesOf(path: string, progress: Progress): AsyncGenerator<Buffer> {
  const source = path === STANDARD_INPUT ? process.stdin : openFile(path);
  try {
    const chunks = counted(source, progress);
    const start = await startOf(chunks);
    const whole = chain(start, chunks);
    const packed = unpacker(packingOf(start), nameOf(path));
    // Whoever reads meets a failure as well, so nothing is left to do about it at its source.
    yield* packed === undefined ? whole : pipeline(whole, packed, () => {});
  } catch (error) {
    throw logError(nameOf(path), error);
  } finally {
    source.destroy();
  }
}

const openFile = (path: string): Readable => createReadStream(path, { highWaterMark: CHUNK_BYTES });

async function* counted(source: Readable, progress: Progress): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    progress.bytesRead += chunk.length;
    yield chunk;
  }
}

/** Enough to know how it is packed. A pipe may bring its first bytes one by one. */
async function startOf(chunks: AsyncGenerator<Buffer>): Promise<Buffer> {
  let start: Buffer = Buffer.alloc(0);
  while (start.length < MAGIC_BYTES) {
    const { value, done } = await chunks.next();
    if (done) break;
    start = Buffer.concat([start, value]);
  }
  return start;
}

async function* chain(start: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  if (start.length > 0) yield start;
  yield* rest;
}

/** What no text has, but many other files have at once. */
const isBinary = (bytes: Buffer): boolean => bytes.subarray(0, 4096).includes(0);

/** The lines of a path, in batches of what a chunk holds. */
export async function* linesOf(
  path: string,
  progress: Progress,
): AsyncGenerator<readonly string[]> {
  const splitter = new LineSplitter();
  let isFirst = true;
  for await (const chunk of bytesOf(path, progress)) {
    if (isFirst && isBinary(chunk)) {
      throw new LogError(`Expected ${nameOf(path)} to be a log, got data that is not text`);
    }
    isFirst = false;
    const lines = splitter.add(chunk);
    if (lines.length > 0) yield lines;
  }
  const last = splitter.end();
  if (last.length > 0) yield last;
}

/** How many bytes a file has; undefined for what can be read only once, such as a pipe. */
export async function sizeOf(path: string): Promise<number | undefined> {
  if (path === STANDARD_INPUT) return undefined;
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new LogError(`Expected ${path} to be a file, got a folder`);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    throw logError(path, error);
  }
}
