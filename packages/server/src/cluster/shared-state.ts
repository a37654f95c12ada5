/**
 * What all workers go by: the configuration and what the API has set. It lies with the supervisor,
 * who tells the workers, so that those of tomorrow begin with what counts then.
 */
import { memoryStore } from 'sluice';
import { expected, isRecord } from 'sluice/engine';
import type { Config, OverrideConfig } from '../config/model.ts';
import { Configuration, type ReloadOptions } from '../configuration.ts';
import { DecisionService } from '../decision-service.ts';
import { Certificates, loadWith } from '../http/certificates.ts';
import type { Logger } from '../observe/log.ts';
import { OverridesFile } from '../overrides-file.ts';
import type { Settings } from '../settings.ts';
import { shadowOverrideOf } from '../shadow-overrides.ts';
import type { OverrideChange, ReloadOutcome, StartOrder, StateChange } from './messages.ts';

export interface SharedStateOptions {
  readonly settings: Settings;
  readonly log: Logger;
  readonly config: Config;
  /** Reads the files again. */
  readonly load: () => Promise<Config>;
}

/** What came of a change that a worker told of. */
export interface Heard {
  /** What counts then, for all. */
  readonly word: StateChange;
  readonly refusal: Error | undefined;
}

export class SharedState {
  private constructor(
    private readonly decisionService: DecisionService,
    private readonly configuration: Configuration,
    private readonly file: OverridesFile | undefined,
  ) {}

  static async open({ settings, log, config, load }: SharedStateOptions): Promise<SharedState> {
    // A desk at which nobody asks: it finds out whether a configuration can be served.
    const decisionService = new DecisionService(memoryStore({ maxKeys: 1 }));
    // The workers read the certificates themselves. Here they are checked, once for all.
    const certificates = await Certificates.open(settings);
    const configuration = new Configuration(decisionService, config, loadWith(load, certificates));
    const { overridesFile: path } = settings;
    const file =
      path === undefined ? undefined : await OverridesFile.open(path, decisionService, log);
    return new SharedState(decisionService, configuration, file);
  }

  get config(): Config {
    return this.configuration.config;
  }

  /** What a worker begins with, besides the configuration. */
  order(): Pick<StartOrder, 'reloads' | 'overrides' | 'shadowOverrides' | 'isSaved'> {
    const { reloads } = this.configuration;
    const shadowOverrides = this.decisionService.shadowOverrides.list();
    const all = this.decisionService.overrides.list().filter(({ source }) => source === 'api');
    const isSaved = this.file?.isSaved === true;
    return { reloads, overrides: all.map(plain), shadowOverrides, isSaved };
  }

  async reload(options: ReloadOptions): Promise<ReloadOutcome> {
    const { problems, fingerprint, isUnchanged } = await this.configuration.reload(options);
    return { problems, fingerprint, ...(isUnchanged && { isUnchanged }) };
  }

  /** Makes a change that a worker tells of. What counts then is the word for all. */
  override(body: unknown): Heard {
    const { overrides } = this.decisionService;
    const { policy, key, override } = wordOf(body);
    const refusal = refusalOf(() => {
      if (override === undefined) overrides.delete(policy, key);
      else overrides.set({ ...override, policy, key });
    });
    const now = overrides.get(policy, key);
    const word = now?.source === 'api' ? { policy, key, override: plain(now) } : { policy, key };
    return { word, refusal };
  }

  /** The same for whether a policy is in shadow. */
  shadow(body: unknown): Heard {
    const { shadowOverrides } = this.decisionService;
    const said = shadowOverrideOf(body);
    const refusal = refusalOf(() => shadowOverrides.set(said));
    const { policy } = said;
    return { word: { policy, shadow: shadowOverrides.get(policy) ?? null }, refusal };
  }

  /** Lets another instance have the file. */
  async close(): Promise<void> {
    await this.file?.close();
  }

  /** Waits until what has changed is in the file; false if it is not, or there is none. */
  async saved(): Promise<boolean> {
    return (await this.file?.saved()) === true;
  }
}

function refusalOf(change: () => void): Error | undefined {
  try {
    change();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

/** Of a worker's word only the form is looked at; what it says is checked where it is set. */
export function wordOf(body: unknown): OverrideChange {
  const { policy, key, override } = isRecord(body) ? body : {};
  const isForm = typeof policy === 'string' && typeof key === 'string';
  if (!isForm || (override !== undefined && !isRecord(override))) {
    throw expected('ERR_INVALID_OPTION', 'a policy, a key and an override', body);
  }
  const found = override as OverrideConfig | undefined;
  return { policy, key, ...(found !== undefined && { override: found }) };
}

/** Without its source: whoever gets it has it from the API. */
export function plain(override: OverrideConfig & { readonly source?: string }): OverrideConfig {
  const { source, ...rest } = override;
  return rest;
}
