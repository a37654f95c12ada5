/** `sluice peek`: checks a limit on a running service without charging it. */
import { Client, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { decisionLines, decisionOf } from '../decision.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode } from '../output.ts';
import { bodyOf, type CostOptions, costOptions } from './check.ts';

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as CostOptions;
  const { output, environment } = context;
  // Without a cost, the service peeks with a cost of 0, which always fits.
  const query = options.operation === undefined ? { cost: 1, ...options } : options;
  const client = new Client(options, environment);
  const response = await client.request('POST', '/v1/peek', bodyOf(args, query));
  const decision = decisionOf(response);
  if (options.json) output.print(response.text);
  else for (const line of decisionLines(decision, output.paint)) output.print(line);
  return decision.allowed ? EXIT_OK : EXIT_DENIED;
}

export const peek: Command = {
  options: () => [...costOptions(0), ...clientOptions()],
  run,
};
