/** Logs each warning of a configuration once, with the text that `sluice validate` prints. */
import { type Config, problemText } from '../config/model.ts';
import type { Logger } from '../observe/log.ts';

export class ConfigWarnings {
  readonly #log: Pick<Logger, 'warn'>;
  /** The warnings of the last configuration, without line numbers, which change with every edit. */
  #known: ReadonlySet<string> = new Set();

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Logs the warnings that the last configuration did not have. */
  report({ warnings }: Pick<Config, 'warnings'>): void {
    const known = this.#known;
    this.#known = new Set(warnings.map(({ file, message }) => `${file}: ${message}`));
    for (const warning of warnings) {
      const { file, message } = warning;
      if (known.has(`${file}: ${message}`)) continue;
      this.#log.warn({ problem: problemText(warning) }, 'config warning');
    }
  }
}
