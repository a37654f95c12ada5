/** `sluice check`: asks a service whether a call may go ahead, and charges it if so. */
import { InvalidArgumentError, Option } from 'commander';
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { decisionLines, decisionOf } from '../decision.ts';
import { type ExitCode, FINE, NO, visible } from '../output.ts';

export interface CostOptions extends ClientOptions {
  readonly cost?: number;
  readonly operation?: string;
}

export interface CheckOptions extends CostOptions {
  readonly id?: string;
  readonly enforce?: boolean;
}

const cost =
  (least: number) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw new InvalidArgumentError(`Expected an integer of at least ${least}.`);
  };

export const costOptions = (least: 0 | 1): readonly Option[] => [
  new Option('--cost <number>', 'how much the call takes (default 1)').argParser(cost(least)),
  new Option('--operation <name>', "one of the policy's named costs").conflicts('cost'),
];

/** The key and cost of what is asked, for either command. */
export const bodyOf = (args: readonly unknown[], { cost, operation }: CostOptions): object => ({
  policy: args[0],
  key: args[1],
  ...(cost !== undefined && { cost }),
  ...(operation !== undefined && { operation }),
});

const SHOWN_FIELD = /^(?:x-)?ratelimit|^retry-after$/;

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as CheckOptions;
  const { output, environment } = context;
  const { id, enforce } = options;
  const body = { ...bodyOf(args, options), ...(id !== undefined && { id }) };
  const client = new Client(options, environment);
  const answer = await client.ask('POST', enforce ? '/v1/check?enforce' : '/v1/check', body);
  const decision = decisionOf(answer);
  if (options.json) output.print(answer.text);
  else {
    for (const line of decisionLines(decision, output.paint)) output.print(line);
    if (enforce) {
      output.print(`status    ${answer.status} ${visible(answer.statusText)}`);
      for (const [name, value] of Object.entries(answer.headers)) {
        if (SHOWN_FIELD.test(name)) output.print(`${name}: ${visible(String(value))}`);
      }
    }
  }
  return decision.allowed ? FINE : NO;
}

export const check: Command = {
  options: () => [
    ...costOptions(1),
    new Option('--id <id>', 'asked again under the same id it is answered again, not charged'),
    new Option('--enforce', 'ask as a proxy would, and show the status and the fields'),
    ...clientOptions(),
  ],
  run,
};
