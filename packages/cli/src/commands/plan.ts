/** `sluice plan`: replays a log through policies. */
import { Option } from 'commander';
import { definePolicy } from 'sluice';
import {
  clientNames,
  type Judgement,
  Planner,
  type PlanResult,
  type Rules,
  rulesByClient,
} from 'sluice-traffic';
import type { Command, Context } from '../command.ts';
import { integerValue, limitValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure } from '../output.ts';
import { checkOutputFiles } from '../traffic/atomic-file.ts';
import { type ConfigRules, loadRules } from '../traffic/config-rules.ts';
import {
  type LogFacts,
  type LogOptions,
  logLines,
  logOptions,
  readLogs,
  unreliableText,
  withLogs,
} from '../traffic/log.ts';
import { planLines } from '../traffic/plan-text.ts';
import { policyName } from '../traffic/policy-file.ts';
import { type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';
import { cut, labelled, wrapped } from '../traffic/text.ts';
import {
  judgementText,
  judgeThresholds,
  type Thresholds,
  thresholdValue,
} from '../traffic/thresholds.ts';

interface PlanOptions extends LogOptions, Thresholds, ReportOptions {
  readonly policy?: string;
  readonly limit?: string;
  readonly against?: string;
  readonly top: number;
}

/** Maximum number of clients that are listed by name. */
const MAX_LISTED = 20_000;
const DEFAULT_TOP = 20;

/**
 * Returns rules that identify clients by the `ipv6Prefix` of their own configuration. The planner
 * passes client names by the `ipv6Prefix` of the planned configuration.
 */
const withOwnIpv6Prefix = (rules: ConfigRules): Rules => ({
  policies: rules.policies,
  limitsOf: (entry, _, nowMs) => rules.limitsOf(entry, rules.clientOf(entry), nowMs),
});

/**
 * Returns a note on headers that the rules use but no request of the log has. The plan is
 * inaccurate without them.
 */
function missingHeaderLines(headers: readonly string[]): readonly string[] {
  const names = headers.map((name) => cut(name, 40));
  if (names.length === 0) return [];
  const text =
    `No request in the log has ${names.join(', ')}, which the rules use: ` +
    'all requests counted by it share one key.';
  return labelled('note', ...wrapped(text, 68));
}

/** Returns the rules of the `--policy` file, or one policy by client address from `--limit`. */
async function plannedRules({ policy, limit }: PlanOptions): Promise<ConfigRules> {
  if ((policy === undefined) === (limit === undefined)) {
    const got = policy === undefined ? 'none' : 'both';
    throw new Failure(
      `Expected --policy with a configuration file or --limit such as 20/1m, got ${got}`,
    );
  }
  if (policy !== undefined) return await loadRules(policy);
  const { limit: most, windowMs } = limitValue(limit!);
  const nameOf = clientNames();
  const defined = definePolicy(policyName(windowMs), { limit: most, window: windowMs });
  const clientOf: ConfigRules['clientOf'] = ({ client }) => nameOf(client);
  return { ...rulesByClient([defined]), clientOf, missingHeaders: () => [] };
}

/**
 * Prints the exceeded thresholds and returns the exit code. If there are thresholds, an unreliable
 * log also fails, because the numbers compared with the thresholds may be wrong.
 */
function printFailures(
  judgements: readonly Judgement[],
  log: LogFacts,
  { output }: Context,
): ExitCode {
  const isUnreliable = judgements.length > 0 && log.unreliable;
  const messages = [
    ...judgements.filter(({ ok }) => !ok).map(judgementText),
    ...(isUnreliable ? [`The plan is unreliable: ${unreliableText(log)}`] : []),
  ];
  for (const message of messages) {
    const [first, ...rest] = wrapped(`error: ${message}`);
    output.printError(first.replace('error:', output.paintError('red', 'error:')));
    for (const line of rest) output.printError(line);
  }
  return messages.length === 0 ? EXIT_OK : EXIT_DENIED;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as PlanOptions;
  const { output } = context;
  const paths = args[0] as readonly string[];
  const files = [options.policy, options.against].filter((file) => file !== undefined);
  await checkOutputFiles({ '--report': options.report }, [...paths, ...files]);
  const next = await plannedRules(options);
  const current = options.against === undefined ? undefined : await loadRules(options.against);
  const all = current === undefined ? [next] : [next, current];
  const planner = new Planner({
    next,
    current: current && withOwnIpv6Prefix(current),
    clientOf: next.clientOf,
    top: options.top,
  });
  const log = await readLogs(output, paths, options, (entries) => planner.add(entries));
  const result: PlanResult = planner.result();
  const thresholds = judgeThresholds(result, options);
  const missingHeaders = [...new Set(all.flatMap((rules) => rules.missingHeaders()))];
  const whole = { ...result, log, missingHeaders, thresholds };
  await writeReport(output, options, whole, () => [
    ...logLines(log, result),
    ...missingHeaderLines(missingHeaders),
    ...planLines(result, options.top, output.paint),
  ]);
  return printFailures(thresholds, log, context);
}

export const plan: Command = {
  options: () => [
    new Option('--policy <file>', 'file or folder with the planned policies and rules'),
    new Option('--limit <limit>', 'one limit per client instead of a file, such as 20/1m'),
    new Option(
      '--against <file>',
      'file or folder with the current policies, to show what changes',
    ),
    new Option(
      '--max-denied-clients <share>',
      'exit with 1 if more clients than this are denied, such as 0.1% or 20',
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
exit code is 1 if a --max-denied threshold is exceeded or, with a threshold, if
the log is too much out of order. Ordinary clients are all but the heaviest 1%
by requests.
`,
  run: withLogs(run),
};
