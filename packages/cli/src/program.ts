/** The table of commands. Parses the arguments and runs the given command. */
import { readFileSync } from 'node:fs';
import { Argument, CommanderError, Help, type Option, Command as Parser } from 'commander';
import type { CommandRow, Context } from './command.ts';
import { completionScript, SHELLS, type Shell } from './completion-script.ts';
import {
  type Environment,
  EXIT_ERROR,
  EXIT_OK,
  type ExitCode,
  Failure,
  type Output,
} from './output.ts';

const LIMIT = { policy: 'policy name', key: 'key to count, such as user:42' };

const LOGS = { logs: 'access logs, plain or compressed; - reads standard input' };

const COMMANDS: readonly CommandRow[] = [
  {
    usage: 'demo',
    summary: 'run a service with sample traffic and show its decisions',
    load: async () => (await import('./commands/demo.ts')).demo,
  },
  {
    usage: 'serve',
    summary: 'run the service',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  {
    usage: 'init [file]',
    summary: 'write a first configuration file',
    arguments: { file: 'file to write (default: limits.yaml)' },
    load: async () => (await import('./commands/init.ts')).init,
  },
  {
    usage: 'validate [files...]',
    summary: 'validate configuration files',
    arguments: { files: 'files or folders, in the format of Sluice or envoyproxy/ratelimit' },
    load: async () => (await import('./commands/validate.ts')).validate,
  },
  {
    usage: 'check <policy> <key>',
    summary: 'check a limit on a running service and charge it',
    arguments: LIMIT,
    load: async () => (await import('./commands/check.ts')).check,
  },
  {
    usage: 'peek <policy> <key>',
    summary: 'check a limit on a running service without charging it',
    arguments: LIMIT,
    load: async () => (await import('./commands/peek.ts')).peek,
  },
  {
    usage: 'reset <policy> <key>',
    summary: 'reset the counters of a key',
    arguments: LIMIT,
    load: async () => (await import('./commands/reset.ts')).reset,
  },
  {
    usage: 'inspect <policy> <key>',
    summary: 'show the state of a key: usage, entries, reset time',
    arguments: LIMIT,
    load: async () => (await import('./commands/inspect.ts')).inspect,
  },
  {
    usage: 'top',
    summary: 'show live decision rates and top keys of a running service',
    load: async () => (await import('./commands/top.ts')).top,
  },
  {
    usage: 'generate <shape>',
    summary: 'generate traffic: a log file, or load on a local service',
    arguments: { shape: 'traffic shape, listed below' },
    load: async () => (await import('./commands/generate.ts')).generate,
  },
  {
    usage: 'plan <logs...>',
    summary: 'show which requests of a log policies would have denied',
    arguments: LOGS,
    load: async () => (await import('./commands/plan.ts')).plan,
  },
  {
    usage: 'suggest <logs...>',
    summary: 'suggest a limit that fits the traffic of a log',
    arguments: LOGS,
    load: async () => (await import('./commands/suggest.ts')).suggest,
  },
  {
    usage: 'compare <logs...>',
    summary: 'compare the five algorithms on the traffic of a log',
    arguments: LOGS,
    load: async () => (await import('./commands/compare.ts')).compare,
  },
  {
    usage: 'explain [logs...]',
    summary: 'explain a decision: in a log, on a running service, or from response headers',
    arguments: LOGS,
    load: async () => (await import('./commands/explain.ts')).explain,
  },
];

const EXIT_CODES = `
Exit codes:
  0  success, or allowed
  1  denied, or invalid input
  2  usage error, or service unreachable`;

const COMPLETION_HELP = `  bash  eval "$(sluice completion bash)" in ~/.bashrc
  zsh   eval "$(sluice completion zsh)" in ~/.zshrc, after compinit
  fish  sluice completion fish > ~/.config/fish/completions/sluice.fish
`;

function version(): string {
  const path = new URL('../package.json', import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8')).version;
}

/** Removes the value of an unknown flag from an error message, because it may be a secret. */
const withoutValue = (text: string): string => text.replace(/('--[^=']+)=[^']*/g, '$1');

const MISSING = /^error: missing required argument/;

const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Help in which all descriptions begin with a capital letter, like those of the settings. */
class CapitalHelp extends Help {
  override optionDescription(option: Option): string {
    return capitalize(super.optionDescription(option));
  }

  override argumentDescription(argument: Argument): string {
    return capitalize(super.argumentDescription(argument));
  }

  override subcommandDescription(command: Parser): string {
    return capitalize(super.subcommandDescription(command));
  }

  override commandDescription(command: Parser): string {
    return capitalize(super.commandDescription(command));
  }
}

function newParser(name: string, output: Output): Parser {
  const parser = new Parser(name);
  parser.createHelp = () => Object.assign(new CapitalHelp(), parser.configureHelp());
  const writeOut = (text: string): void => output.write(text);
  const writeErr = (text: string): void => output.writeError(text);
  const outputError = (text: string, write: (text: string) => void): void => {
    write(withoutValue(text));
    if (MISSING.test(text)) write(`Usage: sluice ${name} ${parser.usage()}\n`);
  };
  return parser
    .helpOption('-h, --help', 'show help')
    .configureOutput({ writeOut, writeErr, outputError })
    .exitOverride();
}

/** Removes `help` before an unknown command, so that the parser reports the unknown command. */
function withoutUnknownHelp(words: readonly string[]): readonly string[] {
  const [first, second = 'help'] = words;
  const isKnown =
    second === 'completion' || COMMANDS.some(({ usage }) => usage.split(' ')[0] === second);
  const isOther = first !== 'help' || isKnown || second === 'help' || second.startsWith('-');
  return isOther ? words : [second];
}

/** Runs the command given by the arguments. Resolves to the exit code. */
export async function runProgram(
  words: readonly string[],
  output: Output,
  environment: Environment,
): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT_OK;
  const program = newParser('sluice', output)
    .description('Sliding-window rate limiter: service, client and log analysis.')
    .version(version(), '-V, --version', 'print the version')
    .helpCommand('help [command]', 'show help for a command')
    .addHelpText('after', EXIT_CODES);
  for (const row of COMMANDS) {
    const parser = parserOf(row, output);
    program.addCommand(parser);
    if (!words.includes(parser.name())) continue;
    await addCommand(parser, row, { output, environment }, (code) => {
      exitCode = code;
    });
  }
  addCompletion(program, output);
  try {
    await program.parseAsync([...withoutUnknownHelp(words)], { from: 'user' });
    return exitCode;
  } catch (error) {
    // The parser has already printed the message. Its exit code is 0 after help or the version.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_ERROR;
    const isExpected = error instanceof Failure;
    const text = isExpected ? error.message : ((error as Error).stack ?? String(error));
    output.printError(`${output.paintError('red', 'error:')} ${text}`);
    // An internal error must not exit with 1, which means a denial.
    return isExpected ? error.exitCode : EXIT_ERROR;
  }
}

/** Adds `sluice completion`, which loads all commands to list their options. */
function addCompletion(program: Parser, output: Output): void {
  const parser = newParser('completion', output)
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'shell').choices(SHELLS));
  parser.action(async (shell: Shell) => {
    const values: Record<string, readonly string[]> = { completion: SHELLS };
    for (const row of COMMANDS) {
      const command = program.commands.find((each) => each.name() === row.usage.split(' ')[0])!;
      const loaded = await row.load();
      const known = new Set(command.options.map(({ flags }) => flags));
      for (const option of loaded.options()) {
        if (!known.has(option.flags)) command.addOption(option);
      }
      if (loaded.values !== undefined) values[command.name()] = loaded.values;
    }
    output.write(completionScript(shell, program, values));
  });
  parser.addHelpText('after', `\n${COMPLETION_HELP}${EXIT_CODES}`);
  program.addCommand(parser);
}

/** Returns a parser with the usage and summary of a command, before the command is loaded. */
function parserOf(row: CommandRow, output: Output): Parser {
  const { usage, summary, arguments: described = {} } = row;
  const [name, ...rest] = usage.split(' ');
  const parser = newParser(name, output).description(summary);
  for (const each of rest) parser.argument(each, described[each.replace(/[^a-z]/g, '')]);
  return parser;
}

/** Loads the command and adds its options and its action. */
async function addCommand(
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
