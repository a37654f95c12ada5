/** Loads the effective configuration: settings from all sources, and the configuration files. */
import { fileURLToPath } from 'node:url';
import {
  type Config,
  ConfigError,
  type ConfigProblem,
  closestName,
  loadConfig,
  type ReadSettings,
  readSettings,
  SETTING_NAMES,
  SETTINGS,
  SettingsError,
  variableOf,
} from 'sluice-server';
import type { Flags } from './flags.ts';
import type { Environment } from './output.ts';

/** Returns the path of a file in the server package. */
export const serverPath = (name: string): string =>
  fileURLToPath(new URL(name, import.meta.resolve('sluice-server/package.json')));

/** Returns the path of the example configuration, which is used if no configuration is given. */
export const examplePath = (): string => serverPath('config/example.yaml');

export interface EffectiveConfig extends ReadSettings {
  readonly config: Config;
  /** Configuration files and folders, as given. */
  readonly paths: readonly string[];
  /** True if no files were given, so that the example configuration is used. */
  readonly isExample: boolean;
  readonly warnings: readonly string[];
}

/** Thrown with all problems of the configuration files and of the settings. */
export class Problems extends Error {
  constructor(
    readonly ofFiles: readonly ConfigProblem[],
    readonly ofSettings: readonly string[],
  ) {
    super('The configuration is not valid');
  }
}

/**
 * Loads the configuration files and reads the settings. If either is invalid, throws `Problems`
 * with the problems of both.
 */
export async function loadEffective(
  flags: Flags,
  environment: Environment,
): Promise<EffectiveConfig> {
  const given = flags.config ?? (environment[variableOf('config')] || undefined);
  const isExample = given === undefined;
  const paths = isExample ? [examplePath()] : SETTINGS.config.read(given);
  const loaded = await load(paths ?? []);
  const config = 'config' in loaded ? loaded.config : undefined;
  const read = readOrProblems(flags, environment, config?.settings);
  if (config === undefined || paths === undefined || Array.isArray(read)) {
    throw new Problems(
      'problems' in loaded ? loaded.problems : [],
      Array.isArray(read) ? read : [],
    );
  }
  const warnings = misspeltWarnings(environment);
  return { ...(read as ReadSettings), config, paths, isExample, warnings };
}

type LoadResult = { readonly config: Config } | { readonly problems: readonly ConfigProblem[] };

/**
 * Loads the files. If `paths` is empty, returns no problems: the setting `config` is then invalid,
 * which `readOrProblems` reports.
 */
async function load(paths: readonly string[]): Promise<LoadResult> {
  if (paths.length === 0) return { problems: [] };
  try {
    return { config: await loadConfig(paths) };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems };
    throw error;
  }
}

function readOrProblems(
  flags: Flags,
  environment: Environment,
  file: Config['settings'] | undefined,
): ReadSettings | readonly string[] {
  try {
    return readSettings(flags, environment, file);
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
}

const PREFIX = 'SLUICE_';
const OTHER_VARIABLES = ['SLUICE_URL'];
const withoutPrefix = (name: string): string => name.slice(PREFIX.length);

/**
 * Returns warnings about environment variables that look like misspelt settings. They are not
 * errors, because Kubernetes sets variables such as SLUICE_PORT if a service is named sluice.
 */
function misspeltWarnings(environment: Environment): readonly string[] {
  const known = [...SETTING_NAMES.map(variableOf), ...OTHER_VARIABLES].map(withoutPrefix);
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !known.includes(withoutPrefix(name)))
    .flatMap((name) => {
      const meant = closestName(withoutPrefix(name), known);
      return meant === undefined ? [] : [`Expected ${PREFIX}${meant}, got the variable ${name}`];
    });
}
