/** Collects the problems of configuration files, to report them together and in order. */
import { ConfigError, type ConfigProblem, problemText } from './model.ts';

/** Maximum number of problems shown per file. Further problems are only counted. */
const MAX_SHOWN = 100;

export class Problems {
  readonly #byFile = new Map<string, ConfigProblem[]>();
  readonly #warnings: ConfigProblem[] = [];

  /** Adds a file. Problems are listed in the order in which their files were added. */
  addFile(file: string): void {
    if (!this.#byFile.has(file)) this.#byFile.set(file, []);
  }

  add(file: string, line: number, column: number, message: string): void {
    this.addFile(file);
    this.#byFile.get(file)!.push({ file, line, column, message });
  }

  /** Adds a warning about a valid value that is probably a mistake. */
  warn(file: string, line: number, column: number, message: string): void {
    this.#warnings.push({ file, line, column, message });
  }

  get warnings(): readonly ConfigProblem[] {
    return shownProblems(this.#warnings);
  }

  get isEmpty(): boolean {
    return [...this.#byFile.values()].every((problems) => problems.length === 0);
  }

  throwIfAny(): void {
    const all = [...this.#byFile.values()].flatMap(shownProblems);
    if (all.length > 0) throw new ConfigError(all);
  }
}

/**
 * Returns at most `MAX_SHOWN` problems, sorted by position and without duplicates. If there are
 * more, the last entry has their number. A duplicate arises if several YAML aliases refer to one
 * invalid value.
 */
function shownProblems(problems: readonly ConfigProblem[]): readonly ConfigProblem[] {
  const once = new Map(problems.map((each) => [problemText(each), each]));
  const sorted = [...once.values()].sort((a, b) => a.line - b.line || a.column - b.column);
  if (sorted.length <= MAX_SHOWN) return sorted;
  const message = `${sorted.length - MAX_SHOWN} more problems not shown`;
  return [...sorted.slice(0, MAX_SHOWN), { ...sorted[MAX_SHOWN], message }];
}
