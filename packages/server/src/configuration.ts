/**
 * The configuration that counts now, and how it came to be. Reading it again either replaces all of
 * it between two decisions, or, if anything is wrong with the files, nothing.
 */
import { fingerprintOf } from './config/load.ts';
import { type Config, ConfigError, type ConfigProblem } from './config/model.ts';
import type { Desk } from './desk.ts';
import { DescriptorRules } from './rules/descriptor-rules.ts';
import { RequestRules } from './rules/request-rules.ts';

export interface ReloadReport {
  readonly ok: boolean;
  /** What is wrong with the files; then the old configuration goes on. */
  readonly problems: readonly ConfigProblem[];
  /** Of the bytes that were parsed, where they come from files. */
  readonly fingerprint?: string | undefined;
}

export type ReloadListener = (report: ReloadReport) => void;

export class Configuration {
  readonly #desk: Desk;
  readonly #load: () => Promise<Config>;
  #config: Config;
  #requests!: RequestRules;
  #descriptors!: DescriptorRules;
  #problems: readonly ConfigProblem[] = [];
  readonly #listeners: ReloadListener[] = [];
  #reloading: Promise<ReloadReport> | undefined = undefined;

  constructor(desk: Desk, config: Config, load: () => Promise<Config>) {
    this.#desk = desk;
    this.#load = load;
    this.#config = config;
    this.use(config);
  }

  get config(): Config {
    return this.#config;
  }

  /** Which limits a request has. */
  get requests(): RequestRules {
    return this.#requests;
  }

  /** Which limits a descriptor has. */
  get descriptors(): DescriptorRules {
    return this.#descriptors;
  }

  /** What the last reload found wrong; empty if it went well, or there was none. */
  get problems(): readonly ConfigProblem[] {
    return this.#problems;
  }

  onReload(listener: ReloadListener): void {
    this.#listeners.push(listener);
  }

  /** Takes a configuration over. All that can fail comes first. */
  use(config: Config): void {
    const requests = new RequestRules(config.rules);
    const descriptors = new DescriptorRules(config.rules, config.domains);
    this.#desk.use(config.policies);
    this.#desk.overrides.useFile(config.overrides);
    this.#config = config;
    this.#requests = requests;
    this.#descriptors = descriptors;
  }

  /** Reads the files again. Never throws; asked for twice at once, it reads once more after. */
  async reload(): Promise<ReloadReport> {
    await this.#reloading;
    this.#reloading ??= this.#reload().finally(() => {
      this.#reloading = undefined;
    });
    return this.#reloading;
  }

  async #reload(): Promise<ReloadReport> {
    let problems: readonly ConfigProblem[] = [];
    let fingerprint: string | undefined;
    try {
      const config = await this.#load();
      fingerprint = fingerprintOf(config);
      this.use(config);
    } catch (error) {
      problems = problemsOf(error, this.#config.files[0] ?? '');
      if (error instanceof ConfigError) fingerprint ??= fingerprintOf(error);
    }
    this.#problems = problems;
    const report = { ok: problems.length === 0, problems, fingerprint };
    for (const listener of this.#listeners) listener(report);
    return report;
  }
}

function problemsOf(error: unknown, file: string): readonly ConfigProblem[] {
  if (error instanceof ConfigError) return error.problems;
  return [{ file, line: 1, column: 1, message: (error as Error).message }];
}
