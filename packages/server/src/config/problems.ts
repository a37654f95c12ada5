/** Everything that is found wrong with configuration files, told at once and in order. */
import { ConfigError, type ConfigProblem, problemText } from './model.ts';

/** More are counted, but not shown: nobody reads them, and junk has one in every line. */
const MAX_SHOWN = 100;

export class Problems {
  readonly #byFile = new Map<string, ConfigProblem[]>();
  readonly #warnings: ConfigProblem[] = [];

  /** Files are told in the order in which they are announced. */
  announce(file: string): void {
    if (!this.#byFile.has(file)) this.#byFile.set(file, []);
  }

  add(file: string, line: number, column: number, message: string): void {
    this.announce(file);
    this.#byFile.get(file)!.push({ file, line, column, message });
  }

  /** Adds what is allowed, but rarely meant. */
  warn(file: string, line: number, column: number, message: string): void {
    this.#warnings.push({ file, line, column, message });
  }

  get warnings(): readonly ConfigProblem[] {
    return shown(this.#warnings);
  }

  get isEmpty(): boolean {
    return [...this.#byFile.values()].every((problems) => problems.length === 0);
  }

  throwIfAny(): void {
    const all = [...this.#byFile.values()].flatMap(shown);
    if (all.length > 0) throw new ConfigError(all);
  }
}

/** Sorted, and each once: what an alias stands for is read as often as it is named. */
function shown(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const once = new Map(problems.map((each) => [problemText(each), each]));
  const sorted = [...once.values()].sort((a, b) => a.line - b.line || a.column - b.column);
  if (sorted.length <= MAX_SHOWN) return sorted;
  const message = `${sorted.length - MAX_SHOWN} more problems not shown`;
  return [...sorted.slice(0, MAX_SHOWN), { ...sorted[MAX_SHOWN], message }];
}
