/** `sluice plan`: replays a log through policies. */
import { Option } from 'commander';
import { type Judgement, Planner, type PlanResult, type Rules } from 'sluice-traffic';
import type { Command, Context } from '../command.ts';
import { integerValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure } from '../output.ts';
import { checkOutputFiles } from '../traffic/atomic-file.ts';
import { type ConfigRules, loadRules } from '../traffic/config-rules.ts';
import { type LogOptions, logLines, logOptions, readLogs, withLogs } from '../traffic/log.ts';
import { planLines } from '../traffic/plan-text.ts';
import { type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';
import { cut, labelled, wrapped } from '../traffic/text.ts';
import { judge, judgementText, type Thresholds, thresholdValue } from '../traffic/thresholds.ts';

interface PlanOptions extends LogOptions, Thresholds, ReportOptions {
  readonly policy?: string;
  readonly against?: string;
  readonly top: number;
}

/** The most clients that are listed by name. */
const MAX_LISTED = 20_000;
const DEFAULT_TOP = 20;

/** Names clients by these rules' own configuration (`ipv6Prefix`), not by that of the plan. */
const byOwnNames = (rules: ConfigRules): Rules => ({
  policies: rules.policies,
  limitsOf: (entry, _, nowMs) => rules.limitsOf(entry, rules.clientOf(entry), nowMs),
});

/** Warns of headers in the rules that the log does not have: they make the plan inaccurate. */
function missingLines(headers: readonly string[]): readonly string[] {
  const names = headers.map((name) => cut(name, 40));
  if (names.length === 0) return [];
  const text =
    `No request in the log has ${names.join(', ')}, which the rules use: ` +
    'all requests counted by it share one key.';
  return labelled('note', ...wrapped(text, 68));
}

function failed(judgements: readonly Judgement[], { output }: Context): ExitCode {
  const exceeded = judgements.filter(({ ok }) => !ok);
  for (const each of exceeded) {
    for (const line of wrapped(judgementText(each)))
      output.printError(output.paintError('red', line));
  }
  return exceeded.length === 0 ? EXIT_OK : EXIT_DENIED;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as PlanOptions;
  const { output } = context;
  if (options.policy === undefined) {
    throw new Failure('Expected --policy with a configuration file, got none');
  }
  const paths = args[0] as readonly string[];
  const files = [options.policy, ...(options.against === undefined ? [] : [options.against])];
  await checkOutputFiles({ '--report': options.report }, [...paths, ...files]);
  const all = await Promise.all(files.map(loadRules));
  const [next, current] = [all[0], all.at(1)];
  const planner = new Planner({
    next,
    current: current && byOwnNames(current),
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
    new Option('--policy <file>', 'file or folder with the planned policies and rules'),
    new Option(
      '--against <file>',
      'file or folder with the current policies, to show what changes',
    ),
    new Option(
      '--max-denied-clients <share>',
      'exit with 1 if more clients are denied: 0.1% or a number',
    ).argParser(thresholdValue),
    new Option('--max-denied-ordinary <share>', 'the same for ordinary clients').argParser(
      thresholdValue,
    ),
    new Option('--max-denied-requests <share>', 'the same for requests').argParser(thresholdValue),
    new Option('--top <number>', 'number of clients and routes to list')
      .argParser(integerValue(0, MAX_LISTED))
      .default(DEFAULT_TOP),
    reportOption(),
    ...logOptions(),
  ],
  epilogue: `
Without rules, every policy applies to every request, by client address. The
exit code is 1 if a --max-denied threshold is exceeded. Ordinary clients are all
but the heaviest 1% by requests.
`,
  run: withLogs(run),
};
