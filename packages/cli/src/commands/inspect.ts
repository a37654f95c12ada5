/** `sluice inspect`: what a service holds about a key. */
import { type Answer, Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { type KeyReport, keyLines } from '../key-report.ts';
import { type ExitCode, Failure, FINE } from '../output.ts';

/** A path drops segments of dots, however they are encoded. */
function segment(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return encodeURIComponent(text);
  throw new Failure(`Expected a name that can stand in a path, got \`${text}\``);
}

function reportOf({ status, body }: Answer): KeyReport {
  const report = body as Partial<KeyReport> | null;
  if (typeof report?.used === 'number' && Array.isArray(report.entries)) return report as KeyReport;
  throw new Failure(`Expected a key from the service, got another answer ${status}`);
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as ClientOptions;
  const { output, environment } = context;
  const [policy, key] = (args as readonly string[]).map(segment);
  const answer = await new Client(options, environment).ask('GET', `/v1/keys/${policy}/${key}`);
  const report = reportOf(answer);
  if (options.json) output.print(answer.text);
  else for (const line of keyLines(report, output.paint)) output.print(line);
  return FINE;
}

export const inspect: Command = { options: clientOptions, run };
