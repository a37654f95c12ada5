/** The interface of a command. */
import type { Option } from 'commander';
import type { Environment, ExitCode, Output } from './output.ts';

export interface Context {
  readonly output: Output;
  readonly environment: Environment;
}

export interface Command {
  options(): readonly Option[];
  /** Possible values of the first argument, for completion scripts. */
  readonly values?: readonly string[];
  /** Help text below the options. */
  readonly epilogue?: string;
  run(context: Context, args: readonly unknown[], options: object): Promise<ExitCode>;
}

/** A row of the table of commands. */
export interface CommandRow {
  /** Name and arguments, such as `check <policy> <key>`. */
  readonly usage: string;
  readonly summary: string;
  /** Descriptions by argument name. */
  readonly arguments?: Readonly<Record<string, string>>;
  /** Imports the module of the command. Called only if needed, so that `sluice` starts fast. */
  load(): Promise<Command>;
}
