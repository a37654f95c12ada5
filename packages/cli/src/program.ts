/** The table of commands, and from words to the command that they name. */
import { readFileSync } from 'node:fs';
import { CommanderError, Command as Parser } from 'commander';
import type { CommandRow, Context } from './command.ts';
import { CANNOT, type Environment, type ExitCode, Failure, FINE, type Output } from './output.ts';

const LIMIT = { policy: 'the name of a policy', key: 'whom it counts, such as user:42' };

const LOGS = { logs: 'access logs, packed or not; - is standard input' };

const COMMANDS: readonly CommandRow[] = [
  {
    usage: 'demo',
    summary: 'show it at work for some seconds: a service, traffic, and what to see',
    load: async () => (await import('./commands/demo.ts')).demo,
  },
  {
    usage: 'serve',
    summary: 'run the service',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  {
    usage: 'validate [files...]',
    summary: 'check configuration files, as a service would read them together',
    arguments: { files: 'files or folders: of Sluice, or of envoyproxy/ratelimit' },
    load: async () => (await import('./commands/validate.ts')).validate,
  },
  {
    usage: 'check <policy> <key>',
    summary: 'ask a service for a decision, which counts',
    arguments: LIMIT,
    load: async () => (await import('./commands/check.ts')).check,
  },
  {
    usage: 'peek <policy> <key>',
    summary: 'ask a service what it would decide; nothing counts',
    arguments: LIMIT,
    load: async () => (await import('./commands/peek.ts')).peek,
  },
  {
    usage: 'reset <policy> <key>',
    summary: 'have a service forget what a key has used',
    arguments: LIMIT,
    load: async () => (await import('./commands/reset.ts')).reset,
  },
  {
    usage: 'inspect <policy> <key>',
    summary: 'show what a service holds about a key',
    arguments: LIMIT,
    load: async () => (await import('./commands/inspect.ts')).inspect,
  },
  {
    usage: 'top',
    summary: 'watch what a service allows and denies, and to whom',
    load: async () => (await import('./commands/top.ts')).top,
  },
  {
    usage: 'generate <shape>',
    summary: 'make traffic: a log, or load on a service of this machine',
    arguments: { shape: 'what it is like; the list is below' },
    load: async () => (await import('./commands/generate.ts')).generate,
  },
  {
    usage: 'plan <logs...>',
    summary: 'show whom policies would have denied in the traffic of a log',
    arguments: LOGS,
    load: async () => (await import('./commands/plan.ts')).plan,
  },
  {
    usage: 'suggest <logs...>',
    summary: 'find a limit that fits the traffic of a log',
    arguments: LOGS,
    load: async () => (await import('./commands/suggest.ts')).suggest,
  },
  {
    usage: 'compare <logs...>',
    summary: 'run the five algorithms on the traffic of a log',
    arguments: LOGS,
    load: async () => (await import('./commands/compare.ts')).compare,
  },
  {
    usage: 'explain [logs...]',
    summary: 'show why a request is denied: in a log, by a service, or by its fields',
    arguments: LOGS,
    load: async () => (await import('./commands/explain.ts')).explain,
  },
];

const EXIT_CODES = `
Exit codes:
  0  fine, or allowed
  1  denied, or what was to be valid is not
  2  used wrongly, or nobody could be asked`;

function version(): string {
  const path = new URL('../package.json', import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8')).version;
}

/** What stands after a misspelt flag may be a secret. */
const withoutValue = (text: string): string => text.replace(/('--[^=']+)=[^']*/g, '$1');

const MISSING = /^error: missing required argument/;

function newParser(name: string): Parser {
  const parser = new Parser(name);
  const outputError = (text: string, write: (text: string) => void): void => {
    write(withoutValue(text));
    if (MISSING.test(text)) write(`Usage: sluice ${name} ${parser.usage()}\n`);
  };
  return parser
    .helpOption('-h, --help', 'show help')
    .configureOutput({ outputError })
    .exitOverride();
}

/** Help for what is no command is that command, which says that there is none. */
function asked(words: readonly string[]): readonly string[] {
  const [first, second = 'help'] = words;
  const isKnown = COMMANDS.some(({ usage }) => usage.split(' ')[0] === second);
  const isOther = first !== 'help' || isKnown || second === 'help' || second.startsWith('-');
  return isOther ? words : [second];
}

/** Runs the command that the words name, and answers with the exit code. */
export async function runProgram(
  words: readonly string[],
  output: Output,
  environment: Environment,
): Promise<ExitCode> {
  let exitCode: ExitCode = FINE;
  const program = newParser('sluice')
    .description('A sliding-window rate limiter: the service, and what asks it.')
    .version(version(), '--version', 'print the version')
    .helpCommand('help [command]', 'show help for a command')
    .addHelpText('after', EXIT_CODES);
  for (const row of COMMANDS) {
    const parser = parserOf(row);
    program.addCommand(parser);
    if (!words.includes(parser.name())) continue;
    await fill(parser, row, { output, environment }, (code) => {
      exitCode = code;
    });
  }
  try {
    await program.parseAsync([...asked(words)], { from: 'user' });
    return exitCode;
  } catch (error) {
    // The parser has said what it had to say; if nothing is wrong, that was help or the version.
    if (error instanceof CommanderError) return error.exitCode === 0 ? FINE : CANNOT;
    const isForeseen = error instanceof Failure;
    const text = isForeseen ? error.message : ((error as Error).stack ?? String(error));
    output.complain(`${output.paintError('red', 'error:')} ${text}`);
    // A fault of the tool itself must not look like a denial.
    return isForeseen ? error.exitCode : CANNOT;
  }
}

/** What the list of commands shows. */
function parserOf({ usage, summary, arguments: described = {} }: CommandRow): Parser {
  const [name, ...rest] = usage.split(' ');
  const parser = newParser(name).description(summary);
  for (const each of rest) parser.argument(each, described[each.replace(/[^a-z]/g, '')]);
  return parser;
}

/** All that the command itself knows. */
async function fill(
  parser: Parser,
  row: CommandRow,
  context: Context,
  ended: (code: ExitCode) => void,
): Promise<void> {
  const command = await row.load();
  for (const option of command.options()) parser.addOption(option);
  parser.addHelpText('after', `${command.epilogue ?? ''}${EXIT_CODES}`);
  parser.action(async () => {
    ended(await command.run(context, parser.processedArgs, parser.opts()));
  });
}
