/** Where lines come from: files, standard input, packed by gzip or zstd or not at all. */
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import * as zlib from 'node:zlib';

/** Stands for standard input among paths. */
export const STANDARD_INPUT = '-';

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
  /** Undefined for standard input, which does not say. */
  readonly bytesTotal: number | undefined;
}

/** A line longer than that is no line of a log. It is cut, so that it costs no more than others. */
export const LONGEST_LINE = 64 * 1024;

const CHUNK_BYTES = 256 * 1024;

type Packing = 'none' | 'gzip' | 'zstd';

const MAGIC: readonly [Packing, readonly number[]][] = [
  ['gzip', [0x1f, 0x8b]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
];

const packingOf = (start: Uint8Array): Packing =>
  MAGIC.find(([, bytes]) => bytes.every((byte, at) => start[at] === byte))?.[0] ?? 'none';

/** Newer versions of Node can read zstd; older ones have no such function. */
const zstd = (zlib as { createZstdDecompress?: () => zlib.Gunzip }).createZstdDecompress;

function unpacker(packing: Packing, path: string): zlib.Gunzip | undefined {
  if (packing === 'none') return undefined;
  if (packing === 'gzip') return zlib.createGunzip();
  if (zstd !== undefined) return zstd();
  throw new LogError(
    `Expected ${path} to be plain or packed by gzip, got zstd, which Node ${process.versions.node} ` +
      'cannot read: use zstdcat and `-`',
  );
}

async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new LogError(`Expected ${path} to be a file, got a folder`);
    return found.size;
  } catch (error) {
    if (error instanceof LogError) throw error;
    throw new LogError(`Expected ${path} to be a file that can be read, got ${reason(error)}`, {
      cause: error,
    });
  }
}

const reason = (error: unknown): string =>
  (error as { code?: string }).code === 'ENOENT' ? 'no such file' : (error as Error).message;

async function firstBytes(path: string): Promise<Uint8Array> {
  const file = await open(path).catch((error) => {
    throw new LogError(`Expected ${path} to be a file that can be read, got ${reason(error)}`);
  });
  try {
    const { buffer, bytesRead } = await file.read(new Uint8Array(4), 0, 4, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** The bytes of one path, unpacked. */
async function* bytesOf(path: string, progress: Progress): AsyncGenerator<Buffer> {
  const isInput = path === STANDARD_INPUT;
  const source: Readable = isInput
    ? process.stdin
    : createReadStream(path, { highWaterMark: CHUNK_BYTES });
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      progress.bytesRead += chunk.length;
      yield chunk;
    }
  };
  const packed = isInput ? undefined : unpacker(packingOf(await firstBytes(path)), path);
  if (packed === undefined) {
    yield* isInput ? unpackedInput(counted()) : counted();
    return;
  }
  yield* unpacked(counted(), packed, path);
}

/** Standard input shows its packing only with its first bytes. */
async function* unpackedInput(chunks: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  const first = await chunks.next();
  if (first.done) return;
  const whole = async function* (): AsyncGenerator<Buffer> {
    yield first.value;
    yield* chunks;
  };
  const packed = unpacker(packingOf(first.value), 'standard input');
  if (packed === undefined) yield* whole();
  else yield* unpacked(whole(), packed, 'standard input');
}

async function* unpacked(
  chunks: AsyncGenerator<Buffer>,
  packed: zlib.Gunzip,
  path: string,
): AsyncGenerator<Buffer> {
  const fed = (async () => {
    for await (const chunk of chunks) {
      if (!packed.write(chunk)) await new Promise((resolve) => packed.once('drain', resolve));
    }
    packed.end();
  })();
  // Whoever reads meets the failure as well; this one is only kept from being nobody's.
  fed.catch((error) => packed.destroy(error));
  try {
    for await (const chunk of packed) yield chunk;
  } catch (error) {
    throw new LogError(`Expected ${path} to be whole, got ${(error as Error).message}`, {
      cause: error,
    });
  }
}

const NEWLINE = 10;
/** What no text has, but many other files have at once. */
const isBinary = (bytes: Buffer): boolean => bytes.subarray(0, 4096).includes(0);

/** The lines of several paths, one after the other, in batches of what a chunk holds. */
export async function* linesOf(
  paths: readonly string[],
  progress: Progress,
): AsyncGenerator<readonly string[]> {
  for (const path of paths) {
    let rest = '';
    let isFirst = true;
    for await (const chunk of bytesOf(path, progress)) {
      if (isFirst && isBinary(chunk)) {
        throw new LogError(`Expected ${path} to be a log, got a file that is not text`);
      }
      isFirst = false;
      const end = chunk.lastIndexOf(NEWLINE);
      if (end < 0) {
        rest = (rest + chunk.toString('latin1')).slice(0, LONGEST_LINE);
        continue;
      }
      const lines = (rest + chunk.toString('latin1', 0, end)).split('\n');
      rest = chunk.toString('latin1', end + 1).slice(0, LONGEST_LINE);
      yield lines.map(line);
    }
    if (rest !== '') yield [line(rest)];
  }
}

/** Bytes were taken one by one, so that a chunk may end inside a character; here they are text. */
function line(bytes: string): string {
  const bare = bytes.endsWith('\r') ? bytes.slice(0, -1) : bytes;
  const cut = bare.length > LONGEST_LINE ? bare.slice(0, LONGEST_LINE) : bare;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: anything but ASCII is looked for.
  return /[^\x00-\x7f]/.test(cut) ? Buffer.from(cut, 'latin1').toString() : cut;
}

/** How much there is to read. Throws a `LogError` for what cannot be. */
export async function progressOf(paths: readonly string[]): Promise<Progress> {
  if (paths.includes(STANDARD_INPUT)) return { bytesRead: 0, bytesTotal: undefined };
  const sizes = await Promise.all(paths.map(sizeOf));
  return { bytesRead: 0, bytesTotal: sizes.reduce((sum, size) => sum + size, 0) };
}
