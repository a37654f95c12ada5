/** `sluice peek`: what a check would say now, without charging anybody. */
import { Client, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { decisionLines, decisionOf } from '../decision.ts';
import { type ExitCode, FINE, NO } from '../output.ts';
import { bodyOf, type CostOptions, costOptions } from './check.ts';

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as CostOptions;
  const { output, environment } = context;
  // The service peeks at a cost of 0, which always fits; people want to know about a call.
  const asked = options.operation === undefined ? { cost: 1, ...options } : options;
  const client = new Client(options, environment);
  const answer = await client.ask('POST', '/v1/peek', bodyOf(args, asked));
  const decision = decisionOf(answer);
  if (options.json) output.print(answer.text);
  else for (const line of decisionLines(decision, output.paint)) output.print(line);
  return decision.allowed ? FINE : NO;
}

export const peek: Command = {
  options: () => [...costOptions(0), ...clientOptions()],
  run,
};
