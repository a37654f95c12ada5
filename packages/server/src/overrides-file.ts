/**
 * Persists the overrides and shadow mode that were set through the API. Writes are atomic: each
 * change writes a temporary file, syncs it to disk and renames it. A failed write, for example on a
 * full disk, is retried; the service continues meanwhile.
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

/** Maximum size of the file: four times the size of 10,000 overrides. */
const MAX_FILE_BYTES = 128 * 2 ** 20;
/**
 * Maximum time that a caller waits for a write. If the write takes longer, the change is in effect,
 * but is reported as not saved.
 */
const SAVE_MS = 5000;
/** Delay after the first failed write. It doubles with each failure. */
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 60_000;

const entry = z.strictObject({
  policy: z.string().min(1),
  key: z.string(),
  limit: z.number(),
  expiresAtMs: z.number().optional(),
  reason: z.string().optional(),
});
/** Shadow mode by policy. Not `z.record`, which drops a policy named `__proto__`. */
const shadowModes = z.unknown().superRefine((found, context) => {
  if (!isRecord(found)) return context.addIssue({ code: 'custom', message: 'Expected an object' });
  for (const [policy, shadow] of Object.entries(found)) {
    if (typeof shadow === 'boolean') continue;
    context.addIssue({ code: 'custom', path: [policy], message: 'Expected true or false' });
  }
});
const content = z.strictObject({ overrides: z.array(entry), shadow: shadowModes.optional() });

/** The state that the file persists. */
export interface PersistedState {
  readonly overrides: Overrides;
  readonly shadowOverrides: ShadowOverrides;
}

export class OverridesFile {
  readonly path: string;
  readonly #state: PersistedState;
  readonly #log: Logger;
  #writing: Promise<boolean> = Promise.resolve(true);
  #isQueued = false;
  #isSaved = true;
  readonly #lock: FileLock;
  #failures = 0;
  #cancelRetry: () => void = () => {};

  private constructor(path: string, state: PersistedState, log: Logger, lock: FileLock) {
    this.path = path;
    this.#state = state;
    this.#log = log;
    this.#lock = lock;
    // Every change writes the file, including changes that came from other processes.
    state.overrides.onChange(() => this.#onChange());
    state.shadowOverrides.onChange(() => this.#onChange());
  }

  /**
   * Locks the file and loads it into `state`. Throws a `ConfigError` if it cannot be read or
   * written, or if another instance has locked it.
   */
  static async open(path: string, state: PersistedState, log: Logger): Promise<OverridesFile> {
    await checkFolder(path);
    const lock = await lockOf(path);
    try {
      await removeTemporaryFiles(path);
      await readInto(path, state);
    } catch (error) {
      await lock.release();
      throw error;
    }
    return new OverridesFile(path, state, log, lock);
  }

  /** Whether the last write succeeded. */
  get isSaved(): boolean {
    return this.#isSaved;
  }

  /**
   * Resolves to true when all changes so far are written. Resolves to false if the write fails or
   * takes longer than 5 seconds.
   */
  async saved(): Promise<boolean> {
    return (await withTimeout(SAVE_MS, this.#writing)) === true;
  }

  /** Retries a failed write once, then unlocks the file. */
  async close(): Promise<void> {
    this.#cancelRetry();
    if (!this.#isSaved) this.#onChange();
    await this.saved();
    this.#cancelRetry();
    await withTimeout(SAVE_MS, this.#lock.release());
  }

  #onChange(): void {
    // The queued write includes this change.
    if (this.#isQueued) return;
    this.#isQueued = true;
    this.#writing = this.#writing.then(() => this.#write());
  }

  async #write(): Promise<boolean> {
    this.#isQueued = false;
    this.#cancelRetry();
    try {
      await replace(this.path, textFor(this.#state));
      if (this.#failures > 0) this.#log.info({ file: this.path }, 'overrides written again');
      this.#failures = 0;
      this.#isSaved = true;
    } catch (err) {
      this.#isSaved = false;
      const retryMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures, MAX_RETRY_MS);
      // Only the first of several failures in a row is logged.
      if (this.#failures++ === 0) {
        this.#log.error({ err, file: this.path, retryMs }, 'overrides could not be written');
      }
      this.#cancelRetry = systemClock.schedule(retryMs, () => this.#onChange());
    }
    return this.#isSaved;
  }
}

/**
 * Locks the file. Throws if another instance uses it, because two instances would overwrite each
 * other's changes.
 */
async function lockOf(path: string): Promise<FileLock> {
  try {
    return await FileLock.take(path);
  } catch (error) {
    if (!(error instanceof LockedError)) {
      throw problem(
        path,
        `Expected a writable lock file beside it, got ${(error as Error).message}`,
      );
    }
    const advice = 'Give each instance its own --overrides-file';
    throw problem(
      path,
      `Expected a file that no other instance uses, got one that ${error.message} uses. ${advice}`,
    );
  }
}

/** Deletes temporary files that killed processes left behind. */
async function removeTemporaryFiles(path: string): Promise<void> {
  const start = `${basename(path)}.`;
  for (const name of await readdir(dirname(path))) {
    const isTemporary = name.startsWith(start) && /^\d+\.new$/.test(name.slice(start.length));
    if (isTemporary) await unlink(join(dirname(path), name)).catch(() => {});
  }
}

async function readInto(path: string, state: PersistedState): Promise<void> {
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
    at(['overrides', place], () => state.overrides.set(override));
  }
  for (const [policy, isShadow] of Object.entries(shadow)) {
    at(['shadow', policy], () => state.shadowOverrides.set({ policy, shadow: isShadow }));
  }
}

/** Returns the content of the file, with one override per line for readable diffs. */
function textFor({ overrides, shadowOverrides }: PersistedState): string {
  const lines = overrides
    .list()
    .filter(({ source }) => source === 'api')
    .map(({ source, ...override }) => JSON.stringify(override));
  const modes = shadowOverrides
    .list()
    .map(({ policy, shadow }) => `${JSON.stringify(policy)}: ${shadow}`);
  // `shadow` is omitted if it is empty, as in files of older versions.
  const shadow = modes.length === 0 ? '' : `, "shadow": {\n${modes.join(',\n')}\n}`;
  return `{"overrides": [\n${lines.join(',\n')}\n]${shadow}}\n`;
}

async function replace(path: string, text: string): Promise<void> {
  const temporary = `${path}.${process.pid}.new`;
  // Deletes an existing file instead of writing to it: it may be a FIFO or belong to another user.
  await unlink(temporary).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
    await rename(temporary, path);
  } catch (error) {
    // On a full disk, a partial file would take up space.
    await unlink(temporary).catch(() => {});
    throw error;
  } finally {
    await file.close();
  }
  // The rename is durable only after the folder is synced.
  const folder = await open(dirname(path), 'r');
  await folder.sync().finally(() => folder.close());
}

async function textOf(path: string): Promise<string> {
  try {
    return (await readRegularFile(path, MAX_FILE_BYTES)).toString('utf8');
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return '{"overrides": []}';
    throw problem(path, `Expected a readable file, got ${(error as Error).message}`);
  }
}

async function checkFolder(path: string): Promise<void> {
  try {
    await access(dirname(path), constants.W_OK);
  } catch (error) {
    throw problem(path, `Expected a writable folder, got ${(error as Error).message}`);
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
  throw problemAt(path, text, where, `Expected \`${what}\` as written by the service: ${message}`);
}

const problem = (file: string, message: string, line = 1, column = 1): ConfigError =>
  new ConfigError([{ file, line, column, message }]);

/**
 * Returns an error with the line and column of the field at the path `where`. If the field is
 * missing, the error has the position of its closest parent. If `where` is undefined, it has the
 * position of the syntax error. The YAML parser finds the positions, because JSON is also YAML.
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
