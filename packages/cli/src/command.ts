/** What a command is to the table of commands. */
import type { Option } from 'commander';
import type { Environment, ExitCode, Output } from './output.ts';

export interface Context {
  readonly output: Output;
  readonly environment: Environment;
}

export interface Command {
  options(): readonly Option[];
  /** What is printed below the options. */
  readonly epilogue?: string;
  run(context: Context, args: readonly unknown[], options: object): Promise<ExitCode>;
}

/** A row of the table. Only the command that is asked for is loaded: a service is large. */
export interface CommandRow {
  /** As in help: `check <policy> <key>`. */
  readonly usage: string;
  readonly summary: string;
  /** By the name of the argument. */
  readonly arguments?: Readonly<Record<string, string>>;
  load(): Promise<Command>;
}
