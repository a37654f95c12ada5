/** `sluice init`: writes a first configuration file. */
import { access } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { Option } from 'commander';
import { durationCode } from 'sluice/engine';
import { readConfig } from 'sluice-server';
import type { Command, Context } from '../command.ts';
import { limitValue } from '../option-values.ts';
import { EXIT_OK, type ExitCode, Failure, visible } from '../output.ts';
import { writeAtomic } from '../traffic/atomic-file.ts';
import { policyName } from '../traffic/policy-file.ts';

interface InitOptions {
  readonly limit?: string;
  readonly key?: string;
  readonly shadow?: boolean;
  readonly force?: boolean;
}

interface Answers {
  readonly limit: string;
  readonly key: string;
  readonly isShadow: boolean;
}

const DEFAULT_FILE = 'limits.yaml';
const DEFAULT_LIMIT = '100/1m';
const DEFAULT_KEY = 'address';
/**
 * The limit by address is this multiple of the limit by header, because several clients may share
 * an address.
 */
const PER_ADDRESS = 10;
const HEADER = /^[\w!#$%&'*+.^`|~-]{1,64}$/;

function checkKey(key: string): void {
  if (HEADER.test(key)) return;
  throw new Failure(
    `Expected \`address\` or the name of a header such as x-api-key, got \`${visible(key)}\``,
  );
}

const HEAD = `# Limits of Sluice. Check this file with: sluice validate FILE
# Run the service with: sluice serve --config FILE
# All fields: docs/configuration.md
`;

const SHADOW = `    # Only reports what it would deny. Delete this line to enforce the limit.
    shadow: true
`;

const BY_ADDRESS = '  # Clients can invent values of a header, so each address has a limit too.\n';

const limitsByHeader = (name: string, header: string): string => `      - policy: ${name}
        # Requests without the header count by address.
        key: header:${header} | address
      - policy: perAddress
`;

const limitsByAddress = (name: string): string => `      - policy: ${name}
        key: address
`;

/** Returns the text of the configuration file. */
function fileText({ limit, key, isShadow }: Answers, path: string): string {
  const { limit: count, windowMs } = limitValue(limit, 'a limit');
  const window = durationCode(windowMs);
  const name = policyName(windowMs);
  const policy = (title: string, most: number): string =>
    `  ${title}:\n    limit: ${most}\n    window: ${window}\n${isShadow ? SHADOW : ''}`;
  const isHeader = key !== DEFAULT_KEY;
  const address = isHeader ? BY_ADDRESS + policy('perAddress', PER_ADDRESS * count) : '';
  return `${HEAD.replaceAll('FILE', path)}
# A policy is a limit per window. The window slides: it is always the last ${window}.
policies:
${policy(name, count)}${address}
# A rule selects the requests that a policy limits, and the key to count by.
rules:
  # Without \`match\`, a rule applies to all requests. For one path, add:
  #   match: { path: /login, method: POST }
  - limits:
${isHeader ? limitsByHeader(name, key) : limitsByAddress(name)}`;
}

/** Prompts for the settings that no flag sets. An empty answer selects the default. */
async function ask(context: Context, options: InitOptions): Promise<Answers> {
  const { limit, key, shadow } = options;
  const isComplete = limit !== undefined && key !== undefined && shadow !== undefined;
  if (!process.stdin.isTTY || !context.output.isTerminal || isComplete) {
    return { limit: limit ?? DEFAULT_LIMIT, key: key ?? DEFAULT_KEY, isShadow: shadow ?? false };
  }
  // With `terminal: false`, the terminal edits the line, and readline prints no escape sequences.
  const terminal = createInterface({
    input: process.stdin,
    output: process.stdout,
    terminal: false,
  });
  const question = async (text: string, usual: string): Promise<string> =>
    (await terminal.question(`${text} [${usual}] `)).trim() || usual;
  try {
    const answer = limit ?? (await question('Limit of each client, such as 20/s?', DEFAULT_LIMIT));
    limitValue(answer, 'a limit');
    const by = key ?? (await question('Client by address, or by which header?', DEFAULT_KEY));
    checkKey(by);
    const watch = shadow ?? /^y/i.test(await question('Only report, without denying?', 'no'));
    return { limit: answer, key: by, isShadow: watch };
  } finally {
    terminal.close();
  }
}

async function checkAbsent(path: string): Promise<void> {
  const exists = await access(path).then(
    () => true,
    () => false,
  );
  if (!exists) return;
  throw new Failure(
    `\`${visible(path)}\` exists. Choose another name, or replace it with --force.`,
  );
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as InitOptions;
  const path = (args[0] as string | undefined) ?? DEFAULT_FILE;
  if (!options.force) await checkAbsent(path);
  const answers = await ask(context, options);
  checkKey(answers.key);
  const text = fileText(answers, path);
  // Validate the text. Invalid text would be a bug in `fileText`.
  readConfig([{ path, text }]);
  await writeAtomic(path, text);
  const { output } = context;
  output.print(`Written to ${visible(path)}. Next:`);
  output.print(`  sluice validate ${visible(path)}`);
  output.print(`  sluice serve --config ${visible(path)}`);
  return EXIT_OK;
}

export const init: Command = {
  options: () => [
    new Option('--limit <limit>', `limit of each client (default: ${DEFAULT_LIMIT})`),
    new Option('--key <key>', 'address, or the name of a header (default: address)'),
    new Option('--shadow', 'only report what the limit would deny'),
    new Option('--force', 'replace an existing file'),
  ],
  epilogue: `
On a terminal, the command prompts for the settings that no flag sets.
`,
  run,
};
