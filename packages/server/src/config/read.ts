/** Configuration files, as texts, to one checked `Config`, or an error with all that is wrong. */

import type { Config, DomainConfig } from './model.ts';
import { DomainParser } from './parse-envoy.ts';
import { parseRules } from './parse-rules.ts';
import {
  parseDomains,
  parseOverrides,
  parsePolicies,
  parseSettingsSection,
} from './parse-sluice.ts';
import { PolicyRegister } from './policy-register.ts';
import { Problems } from './problems.ts';
import { type ConfigText, Source, Unreadable } from './source.ts';
import { type Fields, Value } from './value.ts';
import { DOMAIN_FIELDS, TOP_FIELDS } from './vocabulary.ts';

/** Throws a `ConfigError` with everything that is wrong with any of the files. */
export function readConfig(files: readonly ConfigText[]): Config {
  return readFiles(files, new Problems());
}

/** `problems` may have some already: of files that could not even be opened. */
export function readFiles(files: readonly ConfigText[], problems: Problems): Config {
  const reading = new Reading(problems);
  for (const file of files) reading.add(file);
  const config = reading.config(files.map(({ path }) => path));
  problems.throwIfAny();
  return config;
}

/** Sluice's own file, of which there is at most one. */
interface OwnFile {
  readonly path: string;
  readonly top: Fields;
}

class Reading {
  readonly #problems: Problems;
  readonly #policies = new PolicyRegister();
  readonly #domains: DomainConfig[] = [];
  readonly #domainReader = new DomainParser(this.#policies);
  #own: OwnFile | undefined = undefined;
  #settings: Readonly<Record<string, unknown>> = {};

  constructor(problems: Problems) {
    this.#problems = problems;
    // Whatever could not be opened may have held any name.
    if (!problems.isEmpty) this.#policies.incomplete();
  }

  /** Takes a file, except for what refers to policies: those may be in a later one. */
  add(file: ConfigText): void {
    this.#guarded(() => {
      const source = new Source(file, this.#problems);
      const root = new Value(source, source.root ?? undefined, 'the file');
      if (root.isMissing || !root.isMap) {
        root.expected('a map with policies, or with domain and descriptors');
        throw new Unreadable(file.path);
      }
      if (root.fields('').has('domain')) this.#addDomain(root, file.path);
      else this.#addOwn(root, file.path);
    });
  }

  #addDomain(root: Value, path: string): void {
    const domain = this.#domainReader.read(root.fields('', DOMAIN_FIELDS), path);
    if (domain !== undefined) this.#domains.push(domain);
  }

  #addOwn(root: Value, path: string): void {
    const top = root.fields('', TOP_FIELDS);
    if (this.#own !== undefined) {
      const first = this.#own.path;
      root.report(`Expected one file with policies, got another beside ${first}`);
      // It does not count, but what else is wrong with it is told as well.
      parseSettingsSection(top);
      parsePolicies(top, new PolicyRegister());
      return;
    }
    this.#own = { path, top };
    this.#settings = parseSettingsSection(top);
    parsePolicies(top, this.#policies);
    this.#domains.push(...parseDomains(top, this.#domainReader, path));
  }

  config(files: readonly string[]): Config {
    const empty = { rules: [], overrides: [] } as Pick<Config, 'rules' | 'overrides'>;
    let referring = empty;
    this.#guarded(() => {
      const { top } = this.#own ?? {};
      if (top === undefined) return;
      const rules = parseRules(top.get('rules'), this.#policies);
      referring = { rules, overrides: parseOverrides(top, this.#policies, rules) };
    });
    if (this.#policies.isEmpty && this.#domains.length === 0 && this.#problems.isEmpty) {
      const message = 'Expected at least one policy or domain, got none';
      this.#problems.add(files[0] ?? 'configuration', 1, 1, message);
    }
    return {
      files,
      policies: this.#policies.configs,
      ...referring,
      domains: this.#domains,
      warnings: this.#problems.warnings,
      settings: this.#settings,
    };
  }

  /** What is wrong with one file keeps nobody from reading the others. */
  #guarded(read: () => void): void {
    try {
      read();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.#policies.incomplete();
    }
  }
}
