/** What a service would run with: settings from all places, and the files that they name. */
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

/** A file or folder of the server's package. */
export const serverPath = (name: string): string =>
  fileURLToPath(new URL(name, import.meta.resolve('sluice-server/package.json')));

/** What is served to those who only want to look. */
export const examplePath = (): string => serverPath('config/example.yaml');

export interface Effective extends ReadSettings {
  readonly config: Config;
  /** Files and folders, as they were named. */
  readonly paths: readonly string[];
  /** Whether no files were named, so that the example is served. */
  readonly isExample: boolean;
  readonly warnings: readonly string[];
}

/** Everything that is wrong, wherever it was said. */
export class Problems extends Error {
  constructor(
    readonly ofFiles: readonly ConfigProblem[],
    readonly ofSettings: readonly string[],
  ) {
    super('The configuration is not valid');
  }
}

/** Throws `Problems` with all there are: a file's mistakes do not hide those of a flag. */
export async function effective(flags: Flags, environment: Environment): Promise<Effective> {
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
  const warnings = misspelt(environment);
  return { ...(read as ReadSettings), config, paths, isExample, warnings };
}

type Loaded = { readonly config: Config } | { readonly problems: readonly ConfigProblem[] };

/** Without paths, because they are not right, there is nothing to say about files. */
async function load(paths: readonly string[]): Promise<Loaded> {
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
 * Variables that look like a setting but are none. Not refused: an orchestrator sets variables
 * of its own, such as SLUICE_PORT for a service that is called so.
 */
function misspelt(environment: Environment): readonly string[] {
  const known = [...SETTING_NAMES.map(variableOf), ...OTHER_VARIABLES].map(withoutPrefix);
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !known.includes(withoutPrefix(name)))
    .flatMap((name) => {
      const meant = closestName(withoutPrefix(name), known);
      return meant === undefined ? [] : [`Expected ${PREFIX}${meant}, got the variable ${name}`];
    });
}
