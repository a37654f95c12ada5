/** `sluice check`: checks a limit on a running service and charges it. */
import { InvalidArgumentError, Option } from 'commander';
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { decisionLines, decisionOf } from '../decision.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, visible } from '../output.ts';

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
  new Option('--cost <number>', 'cost of the call (default: 1)').argParser(cost(least)),
  new Option('--operation <name>', 'named cost of the policy').conflicts('cost'),
];

/** Returns the request body of a check or peek. */
export const bodyOf = (args: readonly unknown[], { cost, operation }: CostOptions): object => ({
  policy: args[0],
  key: args[1],
  ...(cost !== undefined && { cost }),
  ...(operation !== undefined && { operation }),
});

const SHOWN_HEADER = /^(?:x-)?ratelimit|^retry-after$/;

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as CheckOptions;
  const { output, environment } = context;
  const { id, enforce } = options;
  const body = { ...bodyOf(args, options), ...(id !== undefined && { id }) };
  const client = new Client(options, environment);
  const response = await client.request('POST', enforce ? '/v1/check?enforce' : '/v1/check', body);
  const decision = decisionOf(response);
  if (options.json) output.print(response.text);
  else {
    for (const line of decisionLines(decision, output.paint)) output.print(line);
    if (enforce) {
      output.print(`status    ${response.status} ${visible(response.statusText)}`);
      for (const [name, value] of Object.entries(response.headers)) {
        if (SHOWN_HEADER.test(name)) output.print(`${name}: ${visible(String(value))}`);
      }
    }
  }
  return decision.allowed ? EXIT_OK : EXIT_DENIED;
}

export const check: Command = {
  options: () => [
    ...costOptions(1),
    new Option('--id <id>', 'idempotency key: repeats with the same id are not charged again'),
    new Option('--enforce', 'show the status and headers that a proxy would get'),
    ...clientOptions(),
  ],
  run,
};
