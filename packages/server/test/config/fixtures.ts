/** Access to the example files: valid (good/), invalid with their messages (bad/), and Envoy's. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Config, ConfigError } from '../../src/config/model.ts';
import { readConfig } from '../../src/config/read.ts';

export const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
export const textOf = (name: string): string => readFileSync(pathOf(name), 'utf8');

/** Returns the names of the YAML files in a folder, without extension. */
export const namesIn = (folder: string): readonly string[] =>
  readdirSync(pathOf(folder))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => name.slice(0, -'.yaml'.length))
    .sort();

export const read = (text: string, path = 'sluice.yaml'): Config => readConfig([{ path, text }]);

/** Returns the problems of files, one per line. */
export function problemsIn(...files: readonly { path: string; text: string }[]): string {
  try {
    readConfig(files);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return '';
}

export const problemsOfText = (text: string, path = 'sluice.yaml'): string =>
  problemsIn({ path, text });
