/** `sluice validate`: validates configuration files. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Option } from 'commander';
import { type Config, ConfigError, type ConfigProblem, loadConfig } from 'sluice-server';
import { counted } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { serverPath } from '../effective.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, type Output } from '../output.ts';
import { problemLines } from '../problems.ts';

interface ValidateOptions {
  readonly json?: boolean;
  readonly schema?: boolean;
}

/**
 * Returns a text such as `3 policies, 2 rules`, with the numbers of domains and overrides if there
 * are any.
 */
export function contentText({ policies, rules, domains, overrides }: Config): string {
  const parts = [counted(policies.length, 'policy'), counted(rules.length, 'rule')];
  if (domains.length > 0) parts.push(counted(domains.length, 'domain'));
  if (overrides.length > 0) parts.push(counted(overrides.length, 'override'));
  return parts.join(', ');
}

export const contentCounts = ({ files, policies, rules, domains, overrides }: Config) => ({
  files,
  policies: policies.length,
  rules: rules.length,
  domains: domains.length,
  overrides: overrides.length,
});

function printSchema({ output }: Context): ExitCode {
  const folder = serverPath('schema');
  const [name] = readdirSync(folder).filter((each) => each.endsWith('.json'));
  const path = join(folder, name);
  output.print(readFileSync(path, 'utf8').trimEnd());
  if (output.isErrorTerminal) output.printError(`Schema: ${path}`);
  return EXIT_OK;
}

function printProblems(output: Output, problems: readonly ConfigProblem[]): void {
  for (const line of problemLines(problems, output.isTerminal, output.paint)) output.print(line);
  output.printError(`${output.paintError('red', 'error:')} ${counted(problems.length, 'problem')}`);
}

/** Prints warnings, which do not change the exit code. */
function printWarnings(output: Output, warnings: readonly ConfigProblem[]): void {
  if (warnings.length === 0) return;
  for (const line of problemLines(warnings, output.isTerminal, output.paint)) output.print(line);
  output.printError(output.paintError('yellow', counted(warnings.length, 'warning')));
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const { json, schema } = given as ValidateOptions;
  const files = args[0] as readonly string[];
  if (schema) return printSchema(context);
  if (files.length === 0) throw new Failure('Expected at least one file, got none');
  const { output } = context;
  try {
    const config = await loadConfig(files);
    const { warnings } = config;
    if (json) output.printJson({ ok: true, ...contentCounts(config), problems: [], warnings });
    else {
      const count = counted(config.files.length, 'file');
      const fine = output.paint('green', 'no problems');
      output.print(`${count}, ${contentText(config)}, ${fine}`);
      printWarnings(output, warnings);
    }
    return EXIT_OK;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { problems } = error;
    if (json) output.printJson({ ok: false, problems });
    else printProblems(output, problems);
    return EXIT_DENIED;
  }
}

export const validate: Command = {
  options: () => [
    new Option('--json', 'print the result as JSON'),
    new Option('--schema', 'print the JSON Schema of configuration files, for editors'),
  ],
  run,
};
