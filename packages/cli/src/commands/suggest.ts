/** `sluice suggest`: suggests a limit that fits the traffic of a log. */

import { Option } from 'commander';
import { keyOfEntry, Suggester, type SuggestResult } from 'sluice-traffic';
import { durationText } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { durationValue } from '../option-values.ts';
import { EXIT_OK, type ExitCode, Failure, visible } from '../output.ts';
import { checkOutputFiles } from '../traffic/atomic-file.ts';
import {
  type LogFacts,
  type LogOptions,
  logLines,
  logOptions,
  readLogs,
  withLogs,
} from '../traffic/log.ts';
import { policyText, writePolicy } from '../traffic/policy-file.ts';
import { type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';
import { withFiles } from '../traffic/spool.ts';
import { adviceText, suggestLines } from '../traffic/suggest-text.ts';

interface SuggestOptions extends LogOptions, ReportOptions {
  readonly window?: number;
  readonly out?: string;
}

async function suggestion(
  { output }: Context,
  given: readonly string[],
  options: SuggestOptions,
): Promise<{ readonly result: SuggestResult; readonly log: LogFacts }> {
  const keyOf = keyOfEntry('client')!;
  const suggester = new Suggester({ keyOf, windowMs: options.window });
  return await withFiles(given, async (paths) => {
    const survey = suggester.survey.bind(suggester);
    const log = await readLogs(output, paths, options, survey, 'pass 1 of 2: ');
    if (!suggester.choose()) {
      const spanMs = suggester.spanMs;
      const wanted =
        options.window === undefined
          ? 'a log longer than one second'
          : 'a log longer than the window';
      throw new Failure(`Expected ${wanted}, got a log of ${durationText(spanMs)}`);
    }
    const tryLimits = suggester.tryLimits.bind(suggester);
    await readLogs(output, paths, options, tryLimits, 'pass 2 of 2: ');
    return { result: suggester.result(), log: { ...log, paths: given } };
  });
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as SuggestOptions;
  const { output } = context;
  const paths = args[0] as readonly string[];
  await checkOutputFiles({ '--out': options.out, '--report': options.report }, paths);
  const { result, log } = await suggestion(context, paths, options);
  const policy = policyText(result, log.costs?.columns);
  if (options.out !== undefined) await writePolicy(options.out, policy);
  const advice = adviceText(result);
  const whole = { ...result, advice, policy, log };
  const { out } = options;
  await writeReport(output, options, whole, () => [
    ...logLines(log, result),
    ...suggestLines(result, output.paint),
    '',
    out === undefined ? policy.trimEnd() : `Policy written to ${visible(out)}`,
    '',
    output.paint('bold', advice),
  ]);
  return EXIT_OK;
}

export const suggest: Command = {
  options: () => [
    new Option(
      '--window <duration>',
      'window of the limit (default: eight windows from 1s to 1d)',
    ).argParser(durationValue),
    new Option('--out <file>', 'write the policy to a file instead of printing it'),
    reportOption(),
    ...logOptions(),
  ],
  epilogue: `
The log is read twice. Standard input (-) is kept in a temporary file.
`,
  run: withLogs(run),
};
