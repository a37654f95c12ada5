/** `sluice inspect`: shows the state of a key. */
import {
  Client,
  type ClientOptions,
  clientOptions,
  pathSegment,
  type ServiceResponse,
} from '../client.ts';
import type { Command, Context } from '../command.ts';
import { type KeyReport, keyLines } from '../key-report.ts';
import { EXIT_OK, type ExitCode, Failure } from '../output.ts';

function reportOf({ status, body }: ServiceResponse): KeyReport {
  const report = body as Partial<KeyReport> | null;
  if (typeof report?.used === 'number' && Array.isArray(report.entries)) return report as KeyReport;
  throw new Failure(`Expected a key from the service, got another response (${status})`);
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as ClientOptions;
  const { output, environment } = context;
  const [policy, key] = (args as readonly string[]).map(pathSegment);
  const response = await new Client(options, environment).request(
    'GET',
    `/v1/keys/${policy}/${key}`,
  );
  const report = reportOf(response);
  if (options.json) output.print(response.text);
  else for (const line of keyLines(report, output.paint)) output.print(line);
  return EXIT_OK;
}

export const inspect: Command = { options: clientOptions, run };
