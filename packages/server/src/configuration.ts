/**
 * The configuration that counts now, and how it came to be. Reading it again either replaces all of
 * it between two decisions, or, if anything is wrong with the files, nothing. The new one is
 * prepared in slices while the old one counts.
 */
import { fingerprintOf } from './config/load.ts';
import { type Config, ConfigError, type ConfigProblem } from './config/model.ts';
import type { Desk } from './desk.ts';
import { DescriptorRules } from './rules/descriptor-rules.ts';
import { RequestRules } from './rules/request-rules.ts';
import { atOnce, inSlices } from './slices.ts';

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
  /** How many reloads there were, by result. */
  readonly reloads = { ok: 0, failed: 0 };
  readonly #listeners: ReloadListener[] = [];
  /** The last that was asked for; and the reload that has not begun, which further ones share. */
  #last: Promise<unknown> = Promise.resolve();
  #nextReload: Promise<ReloadReport> | undefined = undefined;
  /** Reloads by another process, where several serve. */
  #elsewhere: (() => Promise<readonly ConfigProblem[]>) | undefined = undefined;

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

  /** Takes a configuration over. */
  use(config: Config): void {
    atOnce(this.#preparing(config))();
  }

  /** Prepares a configuration in slices: all that can fail, and all that takes long. */
  *#preparing(config: Config): Generator<void, () => void> {
    const requests = yield* RequestRules.building(config.rules);
    const descriptors = yield* DescriptorRules.building(config.rules, config.domains);
    const usePolicies = yield* this.#desk.preparing(config.policies);
    const useOverrides = yield* this.#desk.overrides.preparingFile(config.overrides);
    return () => {
      usePolicies();
      useOverrides();
      this.#config = config;
      this.#requests = requests;
      this.#descriptors = descriptors;
    };
  }

  /** Has another process read the files, which then has this one `replace` its configuration. */
  delegate(reload: () => Promise<readonly ConfigProblem[]>): void {
    this.#elsewhere = reload;
  }

  /** Reads the files again. Never throws; asked for twice at once, it reads once more after. */
  async reload(): Promise<ReloadReport> {
    if (this.#elsewhere !== undefined) {
      const problems = await this.#elsewhere().catch((error) => this.#problemsOf(error));
      return { ok: problems.length === 0, problems };
    }
    this.#nextReload ??= this.replace();
    return this.#nextReload;
  }

  /** Loads a configuration and takes it over, one after the other. Never throws. */
  replace(): Promise<ReloadReport> {
    const next = this.#last.then(() => this.#replace());
    this.#last = next.catch(() => {});
    return next;
  }

  async #replace(): Promise<ReloadReport> {
    this.#nextReload = undefined;
    let problems: readonly ConfigProblem[] = [];
    let fingerprint: string | undefined;
    try {
      const config = await this.#load();
      fingerprint = fingerprintOf(config);
      const swap = await inSlices(this.#preparing(config));
      swap();
    } catch (error) {
      problems = this.#problemsOf(error);
      if (error instanceof ConfigError) fingerprint ??= fingerprintOf(error);
    }
    this.#problems = problems;
    this.reloads[problems.length === 0 ? 'ok' : 'failed']++;
    const report = { ok: problems.length === 0, problems, fingerprint };
    for (const listener of this.#listeners) listener(report);
    return report;
  }

  #problemsOf(error: unknown): readonly ConfigProblem[] {
    return problemsOf(error, this.#config.files[0] ?? '');
  }
}

function problemsOf(error: unknown, file: string): readonly ConfigProblem[] {
  if (error instanceof ConfigError) return error.problems;
  return [{ file, line: 1, column: 1, message: (error as Error).message }];
}
