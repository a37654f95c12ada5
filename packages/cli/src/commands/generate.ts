/** `sluice generate`: traffic with a shape, as a log, or sent to a service on this machine. */
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { InvalidArgumentError, Option } from 'commander';
import { systemClock } from 'sluice';
import {
  DEFAULT_REQUESTS,
  GenerateError,
  generateTraffic,
  LINE_FORMATS,
  type LineFormat,
  lineWriter,
  readTime,
  SHAPE_NAMES,
  SHAPES,
  type ShapeName,
  type TrafficOptions,
} from 'sluice-traffic';
import type { Command, Context } from '../command.ts';
import { Load, type LoadReport } from '../load/load.ts';
import { loopbackUrl } from '../load/loopback.ts';
import { loadLines } from '../load/summary.ts';
import { durationValue, integerValue } from '../option-values.ts';
import { type ExitCode, Failure, FINE, numberText, type Output, visible } from '../output.ts';

interface GenerateOptions {
  readonly seed?: number;
  readonly requests?: number;
  readonly clients?: number;
  readonly duration?: number;
  readonly window?: number;
  readonly start?: number;
  readonly format?: LineFormat;
  readonly out?: string;
  readonly against?: string;
  readonly rate?: number;
  readonly json?: boolean;
}

const DEFAULT_RATE = 100;
const DEFAULT_LOAD_MS = 10_000;
/** Written at once: few enough to begin soon, enough to be fast. */
const LINES_AT_ONCE = 500;

function timeValue(text: string): number {
  const timeMs = readTime(text);
  if (timeMs !== undefined) return timeMs;
  throw new InvalidArgumentError('Expected a time such as 2026-01-31T12:00:00Z.');
}

/** Names of options in messages are those of the flags here. */
function traffic(options: TrafficOptions): ReturnType<typeof generateTraffic> {
  try {
    return generateTraffic(options);
  } catch (error) {
    if (!(error instanceof GenerateError)) throw error;
    throw new Failure(visible(error.message.replace(/`(\w+?)(?:Ms)?`/, '--$1')));
  }
}

function shapeOf(name: unknown): ShapeName {
  if (SHAPE_NAMES.includes(name as ShapeName)) return name as ShapeName;
  const known = SHAPE_NAMES.join(', ');
  throw new Failure(`Expected a shape, one of ${known}, got \`${visible(String(name))}\``);
}

function* piecesOf(options: TrafficOptions, format: LineFormat): Generator<string> {
  const write = lineWriter(format);
  let lines: string[] = [];
  for (const request of traffic(options)) {
    lines.push(write(request));
    if (lines.length < LINES_AT_ONCE) continue;
    yield `${lines.join('\n')}\n`;
    lines = [];
  }
  if (lines.length > 0) yield `${lines.join('\n')}\n`;
}

/** Whole or not at all: it lies beside its place until it is done. */
async function writeFile(path: string, pieces: Iterable<string>): Promise<void> {
  const unfinished = `${path}.${process.pid}.part`;
  try {
    await pipeline(Readable.from(pieces), createWriteStream(unfinished));
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    if (error instanceof Failure) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Failure(`Expected to write \`${visible(path)}\`, got ${code ?? message}`);
  }
}

async function writeLog(output: Output, shape: ShapeName, options: GenerateOptions): Promise<void> {
  const { out, json, format = 'combined', start: startMs } = options;
  const { seed, requests, clients, duration: durationMs, window: windowMs } = options;
  const given = { shape, seed, requests, clients, durationMs, windowMs, startMs };
  // What is wrong about them shows before anything is written.
  traffic(given);
  if (out === undefined) {
    if (json) throw new Failure('Expected --json with --out or --against; a log has --format');
    return output.pour(piecesOf(given, format));
  }
  await writeFile(out, piecesOf(given, format));
  const lines = requests ?? DEFAULT_REQUESTS;
  if (json) output.printJson({ shape, file: out, format, lines });
  else output.print(`${numberText(lines)} lines of ${shape} traffic are in ${visible(out)}`);
}

/** Two of requests, duration and rate say the third. */
function amountOf({ requests, duration, rate }: GenerateOptions) {
  if (requests !== undefined && duration !== undefined && rate !== undefined) {
    throw new Failure('Expected two of --requests, --duration and --rate, got all three');
  }
  if (requests !== undefined && duration !== undefined) return { requests, durationMs: duration };
  if (requests !== undefined) {
    const durationMs = Math.max(1, Math.round((1000 * requests) / (rate ?? DEFAULT_RATE)));
    return { requests, durationMs };
  }
  const durationMs = duration ?? DEFAULT_LOAD_MS;
  return { requests: Math.round((durationMs * (rate ?? DEFAULT_RATE)) / 1000), durationMs };
}

async function sendLoad(
  output: Output,
  shape: ShapeName,
  options: GenerateOptions,
  url: URL,
): Promise<LoadReport> {
  const { seed, clients, window: windowMs } = options;
  // Boundaries of windows are those of the clock, so the traffic begins now.
  const startMs = systemClock.now();
  const given = { shape, seed, clients, windowMs, startMs, ...amountOf(options) };
  const load = new Load({ url, requests: traffic(given), startMs });
  const stop = (): void => load.stop();
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop);
  const isSeen = output.errorsAreSeen && !options.json;
  if (isSeen)
    output.complain(`${numberText(given.requests)} requests to ${url.href}; Ctrl-C stops`);
  const report = await load.run();
  for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, stop);
  const [why] = Object.keys(report.failures);
  if (report.answered === 0 && why !== undefined) {
    throw new Failure(`Cannot reach ${url.origin} (${visible(why)}). Nothing was answered.`);
  }
  return report;
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as GenerateOptions;
  const { output } = context;
  const shape = shapeOf(args[0]);
  if (options.against === undefined) {
    if (options.rate !== undefined)
      throw new Failure('Expected --rate with --against, got it alone');
    await writeLog(output, shape, options);
    return FINE;
  }
  const url = loopbackUrl(options.against);
  const report = await sendLoad(output, shape, options, url);
  if (options.json) output.printJson({ shape, url: url.href, ...report });
  else for (const line of loadLines(report, output.paint)) output.print(line);
  return FINE;
}

const widest = Math.max(...SHAPE_NAMES.map(({ length }) => length));
const shapeList = SHAPE_NAMES.map((name) => `  ${name.padEnd(widest)}  ${SHAPES[name].summary}`);

export const generate: Command = {
  options: () => [
    new Option('--seed <number>', 'the same seed is the same traffic (default 1)').argParser(
      integerValue(0),
    ),
    new Option('--requests <number>', 'how many (default 10000)').argParser(integerValue(0)),
    new Option('--clients <number>', 'ordinary clients (default 100)').argParser(integerValue(1)),
    new Option('--duration <duration>', 'how long (default 10m, of diurnal 1d)').argParser(
      durationValue,
    ),
    new Option('--window <duration>', 'the windows of boundary (default 1m)').argParser(
      durationValue,
    ),
    new Option('--start <time>', 'when it begins (default 2026-01-01T00:00:00Z)').argParser(
      timeValue,
    ),
    new Option('--format <format>', 'of the log (default combined)').choices(LINE_FORMATS),
    new Option('--out <file>', 'write the log there rather than to standard output'),
    new Option('--against <url>', 'send it to this address of this machine instead').conflicts([
      'start',
      'format',
      'out',
    ]),
    new Option('--rate <number>', 'requests a second, with --against (default 100)').argParser(
      integerValue(1, 100_000),
    ),
    new Option('--json', 'print the summary as JSON'),
  ],
  epilogue: `
Shapes:
${shapeList.join('\n')}

A URL that ends with / is asked for the generated paths, any other one as it
stands, such as http://127.0.0.1:8080/v1/forward-auth of a service. Clients are
told in X-Forwarded-For.
`,
  run,
};
