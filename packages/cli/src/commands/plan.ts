/** `sluice plan`: what policies would have done to the traffic of a log. */
import { Option } from 'commander';
import { type Judgement, Planner, type PlanResult, type Rules } from 'sluice-traffic';
import type { Command, Context } from '../command.ts';
import { integerValue } from '../option-values.ts';
import { type ExitCode, Failure, FINE, NO } from '../output.ts';
import { type ConfigRules, loadRules } from '../traffic/config-rules.ts';
import { type LogOptions, logLines, logOptions, readLogs, withLogs } from '../traffic/log.ts';
import { planLines } from '../traffic/plan-text.ts';
import { type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';
import { cut, labelled, wrapped } from '../traffic/text.ts';
import { judge, judgementText, type Thresholds, thresholdValue } from '../traffic/thresholds.ts';
import { checkPlaces } from '../traffic/whole-file.ts';

interface PlanOptions extends LogOptions, Thresholds, ReportOptions {
  readonly policy?: string;
  readonly against?: string;
  readonly top: number;
}

/** More are not told by name. */
const MAX_LISTED = 20_000;
const DEFAULT_TOP = 20;

/** Rules that name clients as their own configuration does, whatever the other one does. */
const byOwnNames = (rules: ConfigRules): Rules => ({
  policies: rules.policies,
  limitsOf: (entry, _, nowMs) => rules.limitsOf(entry, rules.clientOf(entry), nowMs),
});

/** What a log cannot tell makes a plan wrong without anybody noticing. */
function missingLines(headers: readonly string[]): readonly string[] {
  const names = headers.map((name) => cut(name, 40));
  if (names.length === 0) return [];
  const text =
    `No request of the log has ${names.join(', ')}, which the rules look at: ` +
    'all that are counted by it share one key here.';
  return labelled('note', ...wrapped(text, 68));
}

function failed(judgements: readonly Judgement[], { output }: Context): ExitCode {
  const missed = judgements.filter(({ ok }) => !ok);
  for (const each of missed) {
    for (const line of wrapped(judgementText(each)))
      output.printError(output.paintError('red', line));
  }
  return missed.length === 0 ? FINE : NO;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as PlanOptions;
  const { output } = context;
  if (options.policy === undefined) {
    throw new Failure('Expected --policy with a file of policies, got none');
  }
  const paths = args[0] as readonly string[];
  const files = [options.policy, ...(options.against === undefined ? [] : [options.against])];
  await checkPlaces({ '--report': options.report }, [...paths, ...files]);
  const all = await Promise.all(files.map(loadRules));
  const [next, today] = [all[0], all.at(1)];
  const planner = new Planner({
    next,
    today: today && byOwnNames(today),
    clientOf: next.clientOf,
    top: options.top,
  });
  const log = await readLogs(output, paths, options, (entries) => planner.add(entries));
  const result: PlanResult = planner.result();
  const thresholds = judge(result, options);
  const missingHeaders = [...new Set(all.flatMap((rules) => rules.missingHeaders()))];
  const whole = { ...result, log, missingHeaders, thresholds };
  await writeReport(output, options, whole, () => [
    ...logLines(log, result),
    ...missingLines(missingHeaders),
    ...planLines(result, options.top, output.paint),
  ]);
  return failed(thresholds, context);
}

export const plan: Command = {
  options: () => [
    new Option('--policy <file>', 'the policies and rules to plan: a file or folder'),
    new Option('--against <file>', 'those of today, to see what changes'),
    new Option(
      '--max-denied-clients <share>',
      'fail if more are denied: 0.1%, or a number',
    ).argParser(thresholdValue),
    new Option('--max-denied-ordinary <share>', 'the same of ordinary clients').argParser(
      thresholdValue,
    ),
    new Option('--max-denied-requests <share>', 'the same of requests').argParser(thresholdValue),
    new Option('--top <number>', 'how many clients and routes are listed')
      .argParser(integerValue(0, MAX_LISTED))
      .default(DEFAULT_TOP),
    reportOption(),
    ...logOptions(),
  ],
  epilogue: `
A file without rules has every policy count every request by the client's
address. The exit code is 1 if more are denied than is allowed.
`,
  run: withLogs(run),
};
