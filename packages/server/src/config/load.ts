/** Loads the configuration from files and folders. */
import { type ConfigFile, readConfigFiles } from './files.ts';
import { type Config, ConfigError } from './model.ts';
import { Problems } from './problems.ts';
import { readFiles } from './read.ts';
import type { ConfigText } from './source.ts';

/**
 * Loads files, and the `*.yaml` and `*.yml` of folders in order of their names. Rejects with a
 * `ConfigError` that has the problems of all files, including files that cannot be read.
 */
export async function loadConfig(paths: readonly string[]): Promise<Config> {
  const problems = new Problems();
  const { files, fingerprint } = await readConfigFiles(paths);
  const texts = files.flatMap((file) => textOf(file, problems) ?? []);
  try {
    const config = readFiles(texts, problems);
    fingerprints.set(config, fingerprint);
    return config;
  } catch (error) {
    if (error instanceof ConfigError) fingerprints.set(error, fingerprint);
    throw error;
  }
}

const fingerprints = new WeakMap<Config | ConfigError, string>();

/** Returns the fingerprint of the files; undefined if the configuration was not read from files. */
export const fingerprintOf = (loaded: Config | ConfigError): string | undefined =>
  fingerprints.get(loaded);

/** Sets the fingerprint of a configuration that another thread has loaded. */
export function withFingerprint<T extends Config | ConfigError>(loaded: T, fingerprint: string): T {
  fingerprints.set(loaded, fingerprint);
  return loaded;
}

function textOf({ path, bytes, problem }: ConfigFile, problems: Problems): ConfigText | undefined {
  problems.addFile(path);
  try {
    const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    if (bytes !== undefined) return { path, text: utf8.decode(bytes) };
  } catch {
    problems.add(path, 1, 1, 'Expected UTF-8, got something else');
    return undefined;
  }
  problems.add(path, 1, 1, problem ?? 'Expected a file, got nothing');
  return undefined;
}
