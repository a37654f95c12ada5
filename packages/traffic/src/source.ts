/** Reads lines from files and standard input, plain or compressed with gzip or zstd. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import * as zlib from 'node:zlib';
import { LineSplitter } from './lines.ts';

/** The path that stands for standard input. */
export const STANDARD_INPUT = '-';

/** Returns the name of a path for messages. */
export const nameOf = (path: string): string => (path === STANDARD_INPUT ? 'standard input' : path);

/** Thrown if a log cannot be read at all. Single unreadable lines are counted instead. */
export class LogError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'LogError';
  }
}

/** Bytes read so far, before decompression. */
export interface Progress {
  bytesRead: number;
  /** Undefined for standard input and pipes. */
  readonly bytesTotal: number | undefined;
}

const CHUNK_BYTES = 64 * 1024;

type Compression = 'none' | 'gzip' | 'zstd';

const MAGIC: readonly [Compression, readonly number[]][] = [
  ['gzip', [0x1f, 0x8b]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
];
const MAGIC_BYTES = 4;

const compressionOf = (start: Uint8Array): Compression =>
  MAGIC.find(([, bytes]) => bytes.every((byte, at) => start[at] === byte))?.[0] ?? 'none';

/** The zstd decompressor; undefined in Node.js versions without zstd. */
const zstd = (zlib as { createZstdDecompress?: typeof zlib.createGunzip }).createZstdDecompress;

function decompressor(compression: Compression, name: string): zlib.Gunzip | undefined {
  if (compression === 'none') return undefined;
  const unpack = compression === 'gzip' ? zlib.createGunzip : zstd;
  if (unpack !== undefined) return unpack({ chunkSize: CHUNK_BYTES });
  throw new LogError(
    `Expected ${name} to be plain or gzip, got zstd, which Node ${process.versions.node} cannot ` +
      'read. Decompress it with zstdcat and read `-`.',
  );
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EISDIR: 'a folder',
  EACCES: 'no permission',
};

/** Returns a `LogError` with a readable message for a system or decompression error. */
function logError(name: string, error: unknown): LogError {
  if (error instanceof LogError) return error;
  const { code = '', message } = error as { code?: string; message: string };
  const isCompression = /^Z/.test(code);
  const wanted = isCompression ? 'to be complete' : 'to be a readable file';
  const got = isCompression ? `a decompression error: ${message}` : (REASONS[code] ?? message);
  return new LogError(`Expected ${name} ${wanted}, got ${got}`, { cause: error });
}

/** Yields the decompressed bytes. Opens the path only once, because it may be a pipe. */
async function* bytesOf(path: string, progress: Progress): AsyncGenerator<Buffer> {
  const source = path === STANDARD_INPUT ? process.stdin : openFile(path);
  try {
    const chunks = countBytes(source, progress);
    const start = await startOf(chunks);
    const whole = chain(start, chunks);
    const packed = decompressor(compressionOf(start), nameOf(path));
    // The callback ignores errors, because reading the stream throws the same error.
    yield* packed === undefined ? whole : pipeline(whole, packed, () => {});
  } catch (error) {
    throw logError(nameOf(path), error);
  } finally {
    source.destroy();
  }
}

const openFile = (path: string): Readable => createReadStream(path, { highWaterMark: CHUNK_BYTES });

async function* countBytes(source: Readable, progress: Progress): AsyncGenerator<Buffer> {
  for await (const chunk of source) {
    progress.bytesRead += chunk.length;
    yield chunk;
  }
}

/**
 * Reads chunks until there are enough bytes to detect the compression. A pipe may deliver single
 * bytes.
 */
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

/** Returns true if there is a zero byte in the first 4096 bytes. */
const isBinary = (bytes: Buffer): boolean => bytes.subarray(0, 4096).includes(0);

/** Yields the lines of a path in batches, one batch per chunk of bytes. */
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

/** Resolves to the size of a file, or to undefined for a pipe or standard input. */
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
