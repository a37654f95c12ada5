/** `sluice reset`: resets the counters of a key. */
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { EXIT_OK, type ExitCode, visible } from '../output.ts';

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as ClientOptions;
  const { output, environment } = context;
  const [policy, key] = args as readonly [string, string];
  const response = await new Client(options, environment).request('POST', '/v1/reset', {
    policy,
    key,
  });
  if (options.json) output.print(response.text);
  else output.print(`reset     ${visible(key)} of policy ${visible(policy)}`);
  return EXIT_OK;
}

export const reset: Command = {
  options: clientOptions,
  run,
};
