/**
 * The file that keeps what the API has set, so that it is there after a restart. It is always
 * whole: each change writes a new file beside it, waits until the disk has it, and puts it in its
 * place.
 */
import { constants } from 'node:fs';
import { access, open, readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { isRecord } from 'sluice/engine';
import { isNode, LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { ConfigError, type OverrideConfig } from './config/model.ts';
import type { Logger } from './observe/log.ts';
import type { Overrides } from './overrides.ts';
import type { ShadowWords } from './shadow-words.ts';

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
  readonly shadowWords: ShadowWords;
}

export class OverridesFile {
  readonly path: string;
  readonly #kept: Kept;
  readonly #log: Logger;
  #writing: Promise<boolean> = Promise.resolve(true);
  #isQueued = false;
  #isSaved = true;

  private constructor(path: string, kept: Kept, log: Logger) {
    this.path = path;
    this.#kept = kept;
    this.#log = log;
    // Those of other processes too: they may have written before they knew of one from here.
    kept.overrides.onChange(() => this.#changed());
    kept.shadowWords.onChange(() => this.#changed());
  }

  /** Sets what the file holds. Throws a `ConfigError` if it cannot be read, or never be written. */
  static async open(path: string, kept: Kept, log: Logger): Promise<OverridesFile> {
    const text = await textOf(path);
    await checkFolder(path);
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
      at(['shadow', policy], () => kept.shadowWords.set({ policy, shadow: word }));
    }
    return new OverridesFile(path, kept, log);
  }

  /** Whether the file holds what counts, as far as that has been written. */
  get isSaved(): boolean {
    return this.#isSaved;
  }

  /** Waits until all that has changed by now is in the file, or has failed to get there. */
  saved(): Promise<boolean> {
    return this.#writing;
  }

  #changed(): void {
    // The write that waits for its turn takes this along.
    if (this.#isQueued) return;
    this.#isQueued = true;
    this.#writing = this.#writing.then(() => this.#write());
  }

  async #write(): Promise<boolean> {
    this.#isQueued = false;
    try {
      await replace(this.path, textFor(this.#kept));
      this.#isSaved = true;
    } catch (err) {
      this.#isSaved = false;
      this.#log.error({ err, file: this.path }, 'overrides could not be written');
    }
    return this.#isSaved;
  }
}

/** One on each line, so that differences can be read. */
function textFor({ overrides, shadowWords }: Kept): string {
  const lines = overrides
    .list()
    .filter(({ source }) => source === 'api')
    .map(({ source, ...override }) => JSON.stringify(override));
  const words = shadowWords
    .list()
    .map(({ policy, shadow }) => `${JSON.stringify(policy)}: ${shadow}`);
  // Left out while there are none, as in files that were written before there could be any.
  const shadow = words.length === 0 ? '' : `, "shadow": {\n${words.join(',\n')}\n}`;
  return `{"overrides": [\n${lines.join(',\n')}\n]${shadow}}\n`;
}

async function replace(path: string, text: string): Promise<void> {
  const beside = `${path}.${process.pid}.new`;
  const file = await open(beside, 'w', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(beside, path);
  // The new name is on the disk only when the folder is.
  const folder = await open(dirname(path), 'r');
  await folder.sync().finally(() => folder.close());
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
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
