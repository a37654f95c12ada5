/** The interface of a command. */
import type { Option } from 'commander';
import type { Environment, ExitCode, Output } from './output.ts';

export interface Context {
  readonly output: Output;
  readonly environment: Environment;
}

export interface Command {
  options(): readonly Option[];
  /** Values of the first argument, for completion. */
  readonly values?: readonly string[];
  /** Help text below the options. */
  readonly epilogue?: string;
  run(context: Context, args: readonly unknown[], options: object): Promise<ExitCode>;
}

/** A row of the table of commands. `load` imports the command only when it runs, to start fast. */
export interface CommandRow {
  /** `check <policy> <key>` */
  readonly usage: string;
  readonly summary: string;
  /** Descriptions by argument name. */
  readonly arguments?: Readonly<Record<string, string>>;
  load(): Promise<Command>;
}
