/** `sluice reset`: makes a key as new. */
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { type ExitCode, FINE, visible } from '../output.ts';

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as ClientOptions;
  const { output, environment } = context;
  const [policy, key] = args as readonly [string, string];
  const answer = await new Client(options, environment).ask('POST', '/v1/reset', { policy, key });
  if (options.json) output.print(answer.text);
  else output.print(`reset     ${visible(key)} is as new to ${visible(policy)}`);
  return FINE;
}

export const reset: Command = {
  options: clientOptions,
  run,
};
