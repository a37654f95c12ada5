/**
 * The file that keeps what the API has set, so that it is there after a restart. It is always
 * whole: each change writes a new file beside it, waits until the disk has it, and puts it in its
 * place. A write that fails, as on a full disk, is retried; meanwhile the service goes on.
 */
import { constants } from 'node:fs';
import { access, open, readdir, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { isNode, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { ConfigError, type OverrideConfig } from './config/model.ts';
import { FileLock, LockedError } from './file-lock.ts';
import type { Logger } from './observe/log.ts';
import type { Overrides } from './overrides.ts';
import { readRegularFile } from './regular-file.ts';
import type { ShadowOverrides } from './shadow-overrides.ts';
import { withTimeout } from './with-timeout.ts';

/** What 10,000 overrides take, four times. */
const MAX_FILE_BYTES = 128 * 2 ** 20;
/** How long a caller waits for a disk; then its change counts, and is not saved yet. */
const SAVE_MS = 5000;
/** After a write that failed, doubling. */
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

const entry = z.strictObject({
  policy: z.string().min(1),
  key: z.string(),
  limit: z.number(),
  expiresAtMs: z.number().optional(),
  reason: z.string().optional(),
});
/** By policy. Not a record of the library's, which leaves `__proto__` out. */
const words = z.unknown().superRefine((found, context) => {
  if (!isRecord(found)) return context.addIssue({ code: 'custom', message: 'Expected an object' });
  for (const [policy, shadow] of Object.entries(found)) {
    if (typeof shadow === 'boolean') continue;
    context.addIssue({ code: 'custom', path: [policy], message: 'Expected true or false' });
  }
});
const content = z.strictObject({ overrides: z.array(entry), shadow: words.optional() });

/** What is kept; a desk has it. */
export interface Kept {
  readonly overrides: Overrides;
  readonly shadowOverrides: ShadowOverrides;
}

export class OverridesFile {
  readonly path: string;
  readonly #kept: Kept;
  readonly #log: Logger;
  #writing: Promise<boolean> = Promise.resolve(true);
  #isQueued = false;
  #isSaved = true;
  readonly #lock: FileLock;
  #failures = 0;
  #cancelRetry: () => void = () => {};

  private constructor(path: string, kept: Kept, log: Logger, lock: FileLock) {
    this.path = path;
    this.#kept = kept;
    this.#log = log;
    this.#lock = lock;
    // Those of other processes too: they may have written before they knew of one from here.
    kept.overrides.onChange(() => this.#changed());
    kept.shadowOverrides.onChange(() => this.#changed());
  }

  /**
   * Locks the file and sets what it holds. Throws a `ConfigError` if it cannot be read, or never be
   * written, or if another instance has it.
   */
  static async open(path: string, kept: Kept, log: Logger): Promise<OverridesFile> {
    await checkFolder(path);
    const lock = await lockOf(path);
    try {
      await removeLeftOvers(path);
      await readInto(path, kept);
    } catch (error) {
      await lock.release();
      throw error;
    }
    return new OverridesFile(path, kept, log, lock);
  }

  /** Whether the file holds what counts, as far as that has been written. */
  get isSaved(): boolean {
    return this.#isSaved;
  }

  /**
   * Waits until all that has changed by now is in the file, or has failed to get there; false if
   * the disk takes longer than 5 seconds.
   */
  async saved(): Promise<boolean> {
    return (await withTimeout(SAVE_MS, this.#writing)) === true;
  }

  /** Tries once more to save what is not, and lets another instance have the file. */
  async close(): Promise<void> {
    this.#cancelRetry();
    if (!this.#isSaved) this.#changed();
    await this.saved();
    this.#cancelRetry();
    await this.#lock.release();
  }

  #changed(): void {
    // The write that waits for its turn takes this along.
    if (this.#isQueued) return;
    this.#isQueued = true;
    this.#writing = this.#writing.then(() => this.#write());
  }

  async #write(): Promise<boolean> {
    this.#isQueued = false;
    this.#cancelRetry();
    try {
      await replace(this.path, textFor(this.#kept));
      if (this.#failures > 0) this.#log.info({ file: this.path }, 'overrides written again');
      this.#failures = 0;
      this.#isSaved = true;
    } catch (err) {
      this.#isSaved = false;
      const retryMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures, MAX_RETRY_MS);
      // Retries fail as the first write did; the log has it once.
      if (this.#failures++ === 0) {
        this.#log.error({ err, file: this.path, retryMs }, 'overrides could not be written');
      }
      this.#cancelRetry = systemClock.schedule(retryMs, () => this.#changed());
    }
    return this.#isSaved;
  }
}

/** Rejects a file that another instance has: each would delete what the other was told. */
async function lockOf(path: string): Promise<FileLock> {
  try {
    return await FileLock.take(path);
  } catch (error) {
    if (!(error instanceof LockedError)) {
      throw problem(path, `Expected a lock beside it to be written: ${(error as Error).message}`);
    }
    const advice = 'Give each instance its own --overrides-file';
    throw problem(
      path,
      `Expected a file of this instance alone, got one that ${error.message} uses. ${advice}`,
    );
  }
}

/** Files that a process which was killed had not finished. */
async function removeLeftOvers(path: string): Promise<void> {
  const start = `${basename(path)}.`;
  for (const name of await readdir(dirname(path))) {
    const isLeftOver = name.startsWith(start) && /^\d+\.new$/.test(name.slice(start.length));
    if (isLeftOver) await unlink(join(dirname(path), name)).catch(() => {});
  }
}

async function readInto(path: string, kept: Kept): Promise<void> {
  const text = await textOf(path);
  const { overrides, shadow = {} } = contentOf(path, text);
  const at = (where: readonly PropertyKey[], set: () => void): void => {
    try {
      set();
    } catch (error) {
      throw problemAt(path, text, where, (error as Error).message);
    }
  };
  for (const [place, override] of overrides.entries()) {
    at(['overrides', place], () => kept.overrides.set(override));
  }
  for (const [policy, word] of Object.entries(shadow)) {
    at(['shadow', policy], () => kept.shadowOverrides.set({ policy, shadow: word }));
  }
}

/** One on each line, so that differences can be read. */
function textFor({ overrides, shadowOverrides }: Kept): string {
  const lines = overrides
    .list()
    .filter(({ source }) => source === 'api')
    .map(({ source, ...override }) => JSON.stringify(override));
  const words = shadowOverrides
    .list()
    .map(({ policy, shadow }) => `${JSON.stringify(policy)}: ${shadow}`);
  // Left out while there are none, as in files that were written before there could be any.
  const shadow = words.length === 0 ? '' : `, "shadow": {\n${words.join(',\n')}\n}`;
  return `{"overrides": [\n${lines.join(',\n')}\n]${shadow}}\n`;
}

async function replace(path: string, text: string): Promise<void> {
  const beside = `${path}.${process.pid}.new`;
  // Whatever is left over there, such as a file of another user or a FIFO, is not written to.
  await unlink(beside).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  const file = await open(beside, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await rename(beside, path);
  } catch (error) {
    // A part of a file takes space that a full disk does not have.
    await unlink(beside).catch(() => {});
    throw error;
  } finally {
    await file.close();
  }
  // The new name is on the disk only when the folder is.
  const folder = await open(dirname(path), 'r');
  await folder.sync().finally(() => folder.close());
}

async function textOf(path: string): Promise<string> {
  try {
    return (await readRegularFile(path, MAX_FILE_BYTES)).toString('utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return '{"overrides": []}';
    throw problem(path, `Expected a file that can be read: ${(error as Error).message}`);
  }
}

async function checkFolder(path: string): Promise<void> {
  try {
    await access(dirname(path), constants.W_OK);
  } catch (error) {
    throw problem(path, `Expected a folder that can be written to: ${(error as Error).message}`);
  }
}

interface Content {
  readonly overrides: readonly OverrideConfig[];
  readonly shadow?: Readonly<Record<string, boolean>>;
}

function contentOf(path: string, text: string): Content {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw problemAt(path, text, undefined, `Expected JSON, got ${(error as Error).message}`);
  }
  const result = content.safeParse(value);
  if (result.success) return result.data as Content;
  const [{ path: where, message }] = result.error.issues;
  const what = isRecord(value) ? where.join('.') || 'the file' : 'the file';
  throw problemAt(
    path,
    text,
    where,
    `Expected \`${what}\` to be as the service writes it: ${message}`,
  );
}

const problem = (file: string, message: string, line = 1, column = 1): ConfigError =>
  new ConfigError([{ file, line, column, message }]);

/**
 * JSON is YAML, whose reader knows where things are. What is missing is told where it should be;
 * without a place it is where the text stops being JSON.
 */
function problemAt(
  file: string,
  text: string,
  where: readonly PropertyKey[] | undefined,
  message: string,
): ConfigError {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, logLevel: 'silent' });
  let offset = where === undefined ? (document.errors[0]?.pos[0] ?? 0) : 0;
  for (let length = where?.length ?? 0; length > 0 && offset === 0; length--) {
    const node = document.getIn(where!.slice(0, length), true);
    if (isNode(node)) offset = node.range?.[0] ?? 0;
  }
  const { line, col } = lines.linePos(offset);
  return problem(file, message, Math.max(1, line), Math.max(1, col));
}
