/**
 * The configuration that counts now, and how it came to be. Reading it again either replaces all of
 * it between two decisions, or, if anything is wrong with the files, nothing. The new one is
 * prepared in slices while the old one counts.
 */
import { fingerprintOf } from './config/load.ts';
import { type Config, ConfigError, type ConfigProblem } from './config/model.ts';
import type { DecisionService } from './decision-service.ts';
import { DescriptorRules } from './rules/descriptor-rules.ts';
import { RequestRules } from './rules/request-rules.ts';
import { atOnce, inSlices } from './slices.ts';

export interface ReloadReport {
  readonly ok: boolean;
  /** What is wrong with the files; then the old configuration goes on. */
  readonly problems: readonly ConfigProblem[];
  /** Of the bytes that were parsed, where they come from files. */
  readonly fingerprint?: string | undefined;
  /** Set if the files were those of the last reload, and so this was none. */
  readonly isUnchanged?: boolean;
}

export interface ReloadOptions {
  /** Whether files with the bytes of the last reload change nothing. Default false. */
  readonly ifChanged?: boolean;
}

/** What became of a reload in another process. */
export type ReloadElsewhere = (
  options: ReloadOptions,
) => Promise<Pick<ReloadReport, 'problems' | 'isUnchanged'>>;

export type ReloadListener = (report: ReloadReport) => void;

export class Configuration {
  readonly #decisionService: DecisionService;
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
  #isNextIfChanged = true;
  /** Reloads by another process, where several serve. */
  #elsewhere: ReloadElsewhere | undefined = undefined;
  /** Of the bytes of the last reload, good or bad. */
  #fingerprint: string | undefined;

  constructor(decisionService: DecisionService, config: Config, load: () => Promise<Config>) {
    this.#decisionService = decisionService;
    this.#load = load;
    this.#config = config;
    this.#fingerprint = fingerprintOf(config);
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
    const usePolicies = yield* this.#decisionService.preparing(config.policies);
    const useOverrides = yield* this.#decisionService.overrides.preparingFile(config.overrides);
    return () => {
      usePolicies();
      useOverrides();
      this.#config = config;
      this.#requests = requests;
      this.#descriptors = descriptors;
    };
  }

  /** Has another process read the files, which then has this one `replace` its configuration. */
  delegate(reload: ReloadElsewhere): void {
    this.#elsewhere = reload;
  }

  /** Reads the files again. Never throws; asked for twice at once, it reads once more after. */
  async reload(options: ReloadOptions = {}): Promise<ReloadReport> {
    if (this.#elsewhere !== undefined) {
      const failed = (error: unknown) => ({ problems: this.#problemsOf(error) });
      const outcome = await this.#elsewhere(options).catch(failed);
      return { ok: outcome.problems.length === 0, ...outcome };
    }
    this.#isNextIfChanged &&= options.ifChanged === true;
    this.#nextReload ??= this.#inTurn(() => {
      const ifChanged = this.#isNextIfChanged;
      this.#nextReload = undefined;
      this.#isNextIfChanged = true;
      return this.#replace((fingerprint) => ifChanged && this.#isLast(fingerprint));
    });
    return this.#nextReload;
  }

  /** Loads a configuration and takes it over, unless it is unchanged. Never throws. */
  replace(isUnchanged = false): Promise<ReloadReport> {
    return this.#inTurn(() => this.#replace(() => isUnchanged));
  }

  #inTurn(work: () => Promise<ReloadReport>): Promise<ReloadReport> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }

  #isLast(fingerprint: string | undefined): boolean {
    return fingerprint !== undefined && fingerprint === this.#fingerprint;
  }

  async #replace(isSame: (fingerprint: string | undefined) => boolean): Promise<ReloadReport> {
    let problems: readonly ConfigProblem[] = [];
    let fingerprint: string | undefined;
    let isUnchanged: boolean;
    const wasOk = this.#problems.length === 0;
    try {
      const config = await this.#load();
      fingerprint = fingerprintOf(config);
      isUnchanged = wasOk && isSame(fingerprint);
      if (!isUnchanged) (await inSlices(this.#preparing(config)))();
    } catch (error) {
      problems = this.#problemsOf(error);
      if (error instanceof ConfigError) fingerprint ??= fingerprintOf(error);
      isUnchanged = !wasOk && isSame(fingerprint);
    }
    this.#fingerprint = fingerprint;
    this.#problems = problems;
    const ok = problems.length === 0;
    if (!isUnchanged) this.reloads[ok ? 'ok' : 'failed']++;
    const report = { ok, problems, fingerprint, isUnchanged };
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
