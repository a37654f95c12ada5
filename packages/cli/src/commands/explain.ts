/** `sluice explain`: explains a decision in a log, on a running service, or from headers. */

import { Option } from 'commander';
import { definePolicy, systemClock, type WindowAlgorithmName } from 'sluice';
import {
  COMPARED,
  clientNames,
  Explainer,
  KEY_WORDS,
  keyOfEntry,
  type ReportedResult,
} from 'sluice-traffic';
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { limitValue, timeValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, visible } from '../output.ts';
import { checkOutputFiles } from '../traffic/atomic-file.ts';
import { explainLines } from '../traffic/explain-text.ts';
import { fieldsDeny, headerLines, parseFields } from '../traffic/header-text.ts';
import { explainLive } from '../traffic/live.ts';
import { type LogOptions, logLines, logOptions, readLogs, withLogs } from '../traffic/log.ts';
import { printResult, type ReportOptions, reportOption, writeReport } from '../traffic/report.ts';

interface ExplainOptions extends LogOptions, ClientOptions, ReportOptions {
  readonly policy?: string;
  readonly key?: string;
  readonly limit?: string;
  readonly algorithm?: WindowAlgorithmName;
  readonly client?: string;
  readonly at?: number;
  readonly headers?: readonly string[];
}

const appendValue = (text: string, before: readonly string[] = []): readonly string[] => [
  ...before,
  text,
];

async function printExplanation(
  { output }: Context,
  options: ExplainOptions,
  result: Extract<ReportedResult, { kind: 'explain' }>,
  lines: readonly string[],
): Promise<ExitCode> {
  await writeReport(output, options, result, () => [
    ...lines,
    ...explainLines(result, output.paint),
  ]);
  return result.allowed ? EXIT_OK : EXIT_DENIED;
}

function missingText(limit: string | undefined, client: string | undefined): string {
  const missing = [
    ...(limit === undefined ? ['--limit, such as 100/1m,'] : []),
    ...(client === undefined ? ['--client, such as 198.51.100.7,'] : []),
  ];
  return `Expected ${missing.join(' and ')} with a log, got none`;
}

async function explainInLog(
  context: Context,
  paths: readonly string[],
  options: ExplainOptions,
): Promise<ExitCode> {
  const { output } = context;
  const { limit, algorithm = 'sliding-log', client, at: atMs, key: keyName = 'client' } = options;
  if (limit === undefined || client === undefined) throw new Failure(missingText(limit, client));
  const { limit: most, windowMs } = limitValue(limit);
  const policy = definePolicy('', { limit: most, window: windowMs, algorithm });
  const keyOf = keyOfEntry(keyName);
  if (keyOf === undefined) {
    const words = KEY_WORDS.join(', ');
    throw new Failure(`Expected --key to be one of ${words}, got \`${visible(keyName)}\``);
  }
  const key = keyName === 'client' ? clientNames()(client) : client;
  await checkOutputFiles({ '--report': options.report }, paths);
  const explainer = new Explainer({ policy, keyOf, key, atMs });
  const log = await readLogs(output, paths, options, (entries) => {
    explainer.add(entries);
    return explainer.isDone;
  });
  const explained = explainer.result();
  if (explained === undefined) {
    const when = atMs === undefined ? '' : ' up to then';
    throw new Failure(`Expected requests of \`${visible(key)}\` in the log${when}, got none`);
  }
  return await printExplanation(context, options, { ...explained, log }, logLines(log, {}));
}

async function explainOnService(context: Context, options: ExplainOptions): Promise<ExitCode> {
  const { policy, key } = options;
  if (key === undefined) throw new Failure('Expected --key with --policy, got none');
  await checkOutputFiles({ '--report': options.report });
  const client = new Client(options, context.environment);
  return await printExplanation(context, options, await explainLive(client, policy!, key), []);
}

function explainHeaders({ output }: Context, options: ExplainOptions): ExitCode {
  if (options.report !== undefined) {
    throw new Failure('Expected --report with a log or --policy, got --headers');
  }
  const parsed = parseFields(options.headers!, systemClock.now());
  printResult(output, options, parsed, () => headerLines(parsed));
  return fieldsDeny(parsed) ? EXIT_DENIED : EXIT_OK;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as ExplainOptions;
  const paths = args[0] as readonly string[];
  const sources = [paths.length > 0, options.policy !== undefined, options.headers !== undefined];
  if (sources.filter(Boolean).length !== 1) {
    throw new Failure('Expected one of a log, --policy (with --key) or --headers');
  }
  if (options.headers !== undefined) return explainHeaders(context, options);
  if (options.policy === undefined) return await explainInLog(context, paths, options);
  return await explainOnService(context, options);
}

export const explain: Command = {
  options: () => [
    new Option('--limit <limit>', 'log: limit and window, such as 100/1m'),
    new Option('--client <client>', 'log: client, or other key, of the request'),
    new Option('--at <time>', 'log: time of the request (default: first denied)').argParser(
      timeValue,
    ),
    new Option('--algorithm <name>', 'log: algorithm (default: sliding-log)').choices(COMPARED),
    new Option('--policy <name>', 'service: policy name'),
    new Option('--key <key>', 'service: key; log: what to count by (default: client)'),
    new Option('--headers <headers>', 'response headers, such as RateLimit; repeatable').argParser(
      appendValue,
    ),
    reportOption(),
    ...logOptions(),
    ...clientOptions().filter(({ long }) => long !== '--json'),
  ],
  epilogue: `
  sluice explain access.log --limit 100/1m --client 198.51.100.7
  sluice explain --policy perMinute --key user:42
  sluice explain --headers 'RateLimit: "perMinute";r=0;t=12'

The exit code is 1 if the decision is a denial.
`,
  run: withLogs(run),
};
