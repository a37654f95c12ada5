/**
 * Holds the configuration in use, and reloads it. A reload replaces the whole configuration between
 * two decisions. If the files have a problem, the old configuration stays in use. The new
 * configuration is prepared in slices (`slices.ts`), so requests are served meanwhile.
 */
import { fingerprintOf } from './config/load.ts';
import { type Config, ConfigError, type ConfigProblem } from './config/model.ts';
import type { DecisionService } from './decision-service.ts';
import { DescriptorRules } from './rules/descriptor-rules.ts';
import { RequestRules } from './rules/request-rules.ts';
import { inSlices, runToEnd } from './slices.ts';

export interface ReloadReport {
  readonly ok: boolean;
  /** Problems of the files. If there are any, the old configuration stays in use. */
  readonly problems: readonly ConfigProblem[];
  /** Fingerprint of the bytes that were parsed, if they came from files. */
  readonly fingerprint?: string | undefined;
  /** Whether the files were the same as at the last reload. If so, nothing was replaced. */
  readonly isUnchanged?: boolean;
}

export interface ReloadOptions {
  /** Whether to skip the reload if the files have not changed since the last one. Default false. */
  readonly ifChanged?: boolean;
}

/** Runs a reload in the supervisor, which reads the files for all workers. */
export type RemoteReload = (
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
  /** Number of reloads by result. */
  readonly reloads = { ok: 0, failed: 0 };
  readonly #listeners: ReloadListener[] = [];
  /** Settles when all reloads in the queue are complete. */
  #last: Promise<unknown> = Promise.resolve();
  /** The queued reload that has not started. Further calls of `reload` share it. */
  #nextReload: Promise<ReloadReport> | undefined = undefined;
  /** Whether all callers of the queued reload set `ifChanged`. */
  #isNextIfChanged = true;
  /** Set in a worker, where the supervisor runs the reloads. */
  #remoteReload: RemoteReload | undefined = undefined;
  /** Fingerprint of the files of the last reload, whether or not it succeeded. */
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

  get requests(): RequestRules {
    return this.#requests;
  }

  get descriptors(): DescriptorRules {
    return this.#descriptors;
  }

  /** Problems of the last reload. Empty if the reload succeeded, or before the first reload. */
  get problems(): readonly ConfigProblem[] {
    return this.#problems;
  }

  onReload(listener: ReloadListener): void {
    this.#listeners.push(listener);
  }

  /** Replaces the configuration in one step. Blocks the event loop meanwhile. */
  use(config: Config): void {
    runToEnd(this.#preparing(config))();
  }

  /**
   * Prepares a configuration in slices. Returns a function that applies the configuration and never
   * throws.
   */
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

  /**
   * Delegates reloads to the supervisor. The supervisor reads the files and sends the outcome to
   * each worker. The worker then calls `replace`.
   */
  delegate(reload: RemoteReload): void {
    this.#remoteReload = reload;
  }

  /**
   * Reloads the files. Never rejects. All calls during a reload share one reload, which starts
   * after it.
   */
  async reload(options: ReloadOptions = {}): Promise<ReloadReport> {
    if (this.#remoteReload !== undefined) {
      const failed = (error: unknown) => ({ problems: this.#problemsOf(error) });
      const result = await this.#remoteReload(options).catch(failed);
      return { ok: result.problems.length === 0, ...result };
    }
    this.#isNextIfChanged &&= options.ifChanged === true;
    this.#nextReload ??= this.#enqueue(() => {
      const ifChanged = this.#isNextIfChanged;
      this.#nextReload = undefined;
      this.#isNextIfChanged = true;
      return this.#replace((fingerprint) => ifChanged && this.#isSameAsLast(fingerprint));
    });
    return this.#nextReload;
  }

  /** Loads a configuration, and applies it unless `isUnchanged` is true. Never rejects. */
  replace(isUnchanged = false): Promise<ReloadReport> {
    return this.#enqueue(() => this.#replace(() => isUnchanged));
  }

  #enqueue(work: () => Promise<ReloadReport>): Promise<ReloadReport> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }

  #isSameAsLast(fingerprint: string | undefined): boolean {
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
