/**
 * Runs in the supervisor: holds the configuration and the changes made through the API, which all
 * workers share. The supervisor sends this state to each worker that starts, and every change to
 * all workers. If a worker exits, its replacement starts with the current state.
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
import type { ApiChange, OverrideChange, ReloadOutcome, StartParameters } from './messages.ts';

export interface SharedStateOptions {
  readonly settings: Settings;
  readonly log: Logger;
  readonly config: Config;
  /** Reads the configuration files. */
  readonly load: () => Promise<Config>;
}

/** Result of applying a change that was made through the API of one worker. */
export interface AppliedChange {
  /** The override or shadow override after the change. It is sent to all workers. */
  readonly change: ApiChange;
  /** Why the change was rejected; undefined if it was applied. */
  readonly error: Error | undefined;
}

export class SharedState {
  private constructor(
    private readonly decisionService: DecisionService,
    private readonly configuration: Configuration,
    private readonly file: OverridesFile | undefined,
  ) {}

  static async open({ settings, log, config, load }: SharedStateOptions): Promise<SharedState> {
    // This decision service decides no checks. It only validates configurations and changes.
    const decisionService = new DecisionService(memoryStore({ maxKeys: 1 }));
    // Each worker reads the certificates itself. The supervisor only validates them.
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

  /** Returns the changes made through the API, and the counts of reloads, for a new worker. */
  startState(): Pick<StartParameters, 'reloads' | 'overrides' | 'shadowOverrides' | 'isSaved'> {
    const { reloads } = this.configuration;
    const shadowOverrides = this.decisionService.shadowOverrides.list();
    const all = this.decisionService.overrides.list().filter(({ source }) => source === 'api');
    const isSaved = this.file?.isSaved === true;
    return { reloads, overrides: all.map(withoutSource), shadowOverrides, isSaved };
  }

  async reload(options: ReloadOptions): Promise<ReloadOutcome> {
    const { problems, fingerprint, isUnchanged } = await this.configuration.reload(options);
    return { problems, fingerprint, ...(isUnchanged && { isUnchanged }) };
  }

  /** Sets or deletes an override. */
  applyOverride(body: unknown): AppliedChange {
    const { overrides } = this.decisionService;
    const { policy, key, override } = parseOverrideChange(body);
    const error = catchError(() => {
      if (override === undefined) overrides.delete(policy, key);
      else overrides.set({ ...override, policy, key });
    });
    const now = overrides.get(policy, key);
    const isSet = now?.source === 'api';
    return { change: { policy, key, ...(isSet && { override: withoutSource(now) }) }, error };
  }

  applyShadowOverride(body: unknown): AppliedChange {
    const { shadowOverrides } = this.decisionService;
    const requested = shadowOverrideOf(body);
    const error = catchError(() => shadowOverrides.set(requested));
    const { policy } = requested;
    return { change: { policy, shadow: shadowOverrides.get(policy) ?? null }, error };
  }

  /** Writes pending changes to the overrides file and releases its lock. */
  async close(): Promise<void> {
    await this.file?.close();
  }

  /** Resolves to whether all changes are saved in the overrides file. */
  async saved(): Promise<boolean> {
    return (await this.file?.saved()) === true;
  }
}

/** Returns the error that `change` throws, or undefined. */
function catchError(change: () => void): Error | undefined {
  try {
    change();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

/**
 * Parses a change. Checks only the types of the fields, because `Overrides` validates their values.
 */
export function parseOverrideChange(body: unknown): OverrideChange {
  const { policy, key, override } = isRecord(body) ? body : {};
  const isValid = typeof policy === 'string' && typeof key === 'string';
  if (!isValid || (override !== undefined && !isRecord(override))) {
    throw expected('ERR_INVALID_OPTION', 'a policy, a key and an override', body);
  }
  const found = override as OverrideConfig | undefined;
  return { policy, key, ...(found !== undefined && { override: found }) };
}

/**
 * Returns an override without `source`: processes send each other only overrides that were set
 * through the API.
 */
export function withoutSource(
  override: OverrideConfig & { readonly source?: string },
): OverrideConfig {
  const { source, ...rest } = override;
  return rest;
}
