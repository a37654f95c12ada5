/** Parses the text of configuration files; throws a `ConfigError` with all problems. */
import { DeclaredPolicies } from './declared-policies.ts';
import { Fields } from './fields.ts';
import type { Config, DomainConfig } from './model.ts';
import { DomainParser } from './parse-envoy.ts';
import { parseRules, type TopFields } from './parse-rules.ts';
import { parseOverrides, parsePolicies, parseSettingsSection } from './parse-sluice.ts';
import { Problems } from './problems.ts';
import { configSchema } from './schema.ts';
import { type ConfigText, Source, UnreadableFile } from './source.ts';
import { Value } from './value.ts';

export const readConfig = (files: readonly ConfigText[]): Config =>
  readFiles(files, new Problems());

/** Parses the files. `problems` already contains the problems of files that could not be read. */
export function readFiles(files: readonly ConfigText[], problems: Problems): Config {
  const reader = new ConfigReader(problems);
  for (const file of files) reader.add(file);
  const config = reader.finish(files.map(({ path }) => path));
  problems.throwIfAny();
  return config;
}

class ConfigReader {
  readonly #problems: Problems;
  readonly #policies = new DeclaredPolicies();
  readonly #domains: DomainConfig[] = [];
  readonly #domainParser = new DomainParser(this.#policies);
  /** The file in Sluice's own format. There is at most one. */
  #own: { readonly path: string; readonly top: TopFields } | undefined = undefined;
  #settings: Readonly<Record<string, unknown>> = {};

  constructor(problems: Problems) {
    this.#problems = problems;
    if (!problems.isEmpty) this.#policies.markIncomplete();
  }

  /** Parses a file except its rules and overrides: they can refer to policies of later files. */
  add(file: ConfigText): void {
    this.#tryRead(() => {
      const source = new Source(file, this.#problems);
      const root = new Value(source, source.root ?? undefined, 'the file');
      if (!root.isMap) {
        root.expected('a map with policies, or with domain and descriptors');
        throw new UnreadableFile(file.path);
      }
      if (root.entries(() => '').has('domain')) this.#addDomain(root, file.path, '');
      else this.#addOwn(root, file.path);
    });
  }

  #addDomain(value: Value, path: string, owner?: string): void {
    const domain = this.#domainParser.parse(value, path, owner);
    if (domain !== undefined) this.#domains.push(domain);
  }

  #addOwn(root: Value, path: string): void {
    const top: TopFields = new Fields(root, configSchema, '');
    if (this.#own !== undefined) {
      root.report(`Expected one file with policies, got another beside ${this.#own.path}`);
      // The second file is ignored, but its problems are reported.
      parseSettingsSection(top);
      parsePolicies(top, new DeclaredPolicies());
      return;
    }
    this.#own = { path, top };
    this.#settings = parseSettingsSection(top);
    parsePolicies(top, this.#policies);
    for (const item of top.items('domains', (place) => `domain ${place}`)) {
      this.#addDomain(item, path);
    }
  }

  /** Parses rules and overrides, which refer to policies of all files. */
  finish(files: readonly string[]): Config {
    let references: Pick<Config, 'rules' | 'overrides'> = { rules: [], overrides: [] };
    this.#tryRead(() => {
      if (this.#own === undefined) return;
      const rules = parseRules(this.#own.top, this.#policies);
      references = { rules, overrides: parseOverrides(this.#own.top, this.#policies, rules) };
    });
    if (this.#policies.isEmpty && this.#domains.length === 0 && this.#problems.isEmpty) {
      const message = 'Expected at least one policy or domain, got none';
      this.#problems.add(files[0] ?? 'configuration', 1, 1, message);
    }
    return {
      files,
      policies: this.#policies.configs,
      ...references,
      domains: this.#domains,
      warnings: this.#problems.warnings,
      settings: this.#settings,
    };
  }

  /** Runs `work`. If it throws `UnreadableFile`, the parsing of the other files continues. */
  #tryRead(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof UnreadableFile)) throw error;
      this.#policies.markIncomplete();
    }
  }
}
