/** `sluice compare`: compares the algorithms on the traffic of a log. */
import { Option } from 'commander';
import { Comparison, KEY_WORDS, keyOfEntry } from 'sluice-traffic';
import type { Command, Context } from '../command.ts';
import { limitValue } from '../option-values.ts';
import { EXIT_OK, type ExitCode, Failure, visible } from '../output.ts';
import { checkOutputFiles } from '../traffic/atomic-file.ts';
import { compareLines } from '../traffic/compare-text.ts';
import { type LogOptions, logLines, logOptions, readLogs, withLogs } from '../traffic/log.ts';
import { type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';

interface CompareOptions extends LogOptions, ReportOptions {
  readonly limit?: string;
  readonly key: string;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as CompareOptions;
  const { output } = context;
  if (options.limit === undefined) throw new Failure('Expected --limit such as 100/1m, got none');
  const { limit, windowMs } = limitValue(options.limit);
  const keyOf = keyOfEntry(options.key);
  if (keyOf === undefined) {
    const words = KEY_WORDS.join(', ');
    throw new Failure(`Expected --key to be one of ${words}, got \`${visible(options.key)}\``);
  }
  const comparison = new Comparison({ limit, windowMs, keyOf });
  const paths = args[0] as readonly string[];
  await checkOutputFiles({ '--report': options.report }, paths);
  const log = await readLogs(output, paths, options, (entries) => comparison.add(entries));
  const result = comparison.result();
  const whole = { ...result, key: options.key, log };
  await writeReport(output, options, whole, () => [
    ...logLines(log, result),
    ...compareLines(result, options.key, output.paint),
  ]);
  return EXIT_OK;
}

export const compare: Command = {
  options: () => [
    new Option('--limit <limit>', 'limit and window, such as 100/1m'),
    new Option('--key <key>', `key to count by: ${KEY_WORDS.join(', ')}`).default('client'),
    reportOption(),
    ...logOptions(),
  ],
  run: withLogs(run),
};
