/** `sluice generate`: generates traffic as a log, or sends it to a local service. */

import { Option } from 'commander';
import { systemClock } from 'sluice';
import {
  type GeneratedRequest,
  GenerateError,
  generateTraffic,
  LINE_FORMATS,
  type LineFormat,
  lineWriter,
  SHAPE_NAMES,
  SHAPES,
  type ShapeName,
  Survey,
  type SurveyResult,
  Timeline,
  type TimelineData,
  type TrafficOptions,
  type TrafficSettings,
  trafficSettings,
} from 'sluice-traffic';
import { countText, percentText } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { isDenial, Load, type LoadReport } from '../load/load.ts';
import { loopbackUrl } from '../load/loopback.ts';
import { loadLines } from '../load/summary.ts';
import { durationValue, integerValue, timeValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, type Output, visible } from '../output.ts';
import { checkOutputFiles, writeAtomicChunks } from '../traffic/atomic-file.ts';
import { Progress } from '../traffic/progress.ts';
import { type PrintOptions, printResult } from '../traffic/report.ts';

interface GenerateOptions extends PrintOptions {
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
}

interface GenerateResult {
  readonly kind: 'generate';
  readonly settings: TrafficSettings;
}

/** The result that `--json` prints with `--out`. */
interface GeneratedLog extends GenerateResult, SurveyResult {
  readonly file: string;
  readonly format: string;
  readonly bytes: number;
}

/** The result that `--json` prints with `--against`. */
interface GeneratedLoad extends GenerateResult, LoadReport {
  readonly url: string;
  readonly timeline: TimelineData<'requests' | 'denied' | 'failed'>;
}

const DEFAULT_RATE = 100;
const DEFAULT_LOAD_MS = 10_000;
/** Lines per write. */
const CHUNK_LINES = 500;

/** Rethrows a `GenerateError` as a `Failure` with flag names instead of option names. */
function withFlagNames<T>(generate: () => T): T {
  try {
    return generate();
  } catch (error) {
    if (!(error instanceof GenerateError)) throw error;
    throw new Failure(visible(error.message.replace(/`(\w+?)(?:Ms)?`/, '--$1')));
  }
}

const traffic = (options: TrafficOptions): Generator<GeneratedRequest> =>
  withFlagNames(() => generateTraffic(options));

/** Returns the settings with defaults. Throws a `Failure` if they are invalid. */
function settingsOf(options: TrafficOptions): TrafficSettings {
  traffic(options);
  return withFlagNames(() => trafficSettings(options));
}

function shapeOf(name: unknown): ShapeName {
  if (SHAPE_NAMES.includes(name as ShapeName)) return name as ShapeName;
  const known = SHAPE_NAMES.join(', ');
  throw new Failure(`Expected the shape to be one of ${known}, got \`${visible(String(name))}\``);
}

interface WrittenTotals {
  readonly lines: number;
  readonly bytes: number;
}

/**
 * Generates a log in chunks. Calls `seen` with each request, and `written` with the totals after
 * each chunk.
 */
function* chunksOf(
  settings: TrafficSettings,
  format: LineFormat,
  seen: (request: GeneratedRequest) => void,
  written: (now: WrittenTotals) => void,
): Generator<string> {
  const write = lineWriter(format);
  let pending: string[] = [];
  let lines = 0;
  let bytes = 0;
  const chunk = (): string => {
    const text = `${pending.join('\n')}\n`;
    lines += pending.length;
    bytes += Buffer.byteLength(text);
    pending = [];
    written({ lines, bytes });
    return text;
  };
  for (const request of traffic(settings)) {
    seen(request);
    pending.push(write(request));
    if (pending.length >= CHUNK_LINES) yield chunk();
  }
  if (pending.length > 0) yield chunk();
}

async function writeLog(
  output: Output,
  settings: TrafficSettings,
  options: GenerateOptions,
): Promise<void> {
  const { out, json, format = 'combined' } = options;
  if (out === undefined && json) {
    throw new Failure('Expected --json with --out or --against. For a JSON log, use --format.');
  }
  await checkOutputFiles({ '--out': out });
  // Only the JSON summary needs counts by client. Their memory grows with the log.
  const survey = json ? new Survey() : undefined;
  const progress = new Progress(output, out !== undefined || !output.isTerminal);
  let written: WrittenTotals = { lines: 0, bytes: 0 };
  const all = countText(settings.requests);
  const chunks = chunksOf(
    settings,
    format,
    (request) => survey?.add(request),
    (now) => {
      written = now;
      progress.show(() => {
        const share = percentText(now.lines, settings.requests);
        return `wrote ${countText(now.lines)} of ${all} lines (${share})`;
      });
    },
  );
  try {
    if (out === undefined) await output.writeChunks(chunks);
    else await writeAtomicChunks(out, chunks);
  } finally {
    progress.end();
  }
  if (out === undefined) return;
  const { lines, bytes } = written;
  if (survey === undefined) {
    const what = `${countText(lines)} lines of ${settings.shape} traffic`;
    output.print(`${what} written to ${visible(out)}`);
    return;
  }
  const result: GeneratedLog = {
    kind: 'generate',
    settings,
    file: out,
    format,
    bytes,
    ...survey.result(),
  };
  output.printJson(result);
}

/**
 * Returns the number of requests and the duration. Computes a missing number from the other
 * options.
 */
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
): Promise<GeneratedLoad> {
  const { seed, clients, window: windowMs } = options;
  // The traffic starts at the current time, because some shapes send bursts at window boundaries,
  // which are aligned to the clock.
  const startMs = systemClock.now();
  const given = { shape, seed, clients, windowMs, startMs, ...amountOf(options) };
  const settings = settingsOf(given);
  const timeline = new Timeline(['requests', 'denied', 'failed']);
  const progress = new Progress(output);
  const count = (what?: 'denied' | 'failed'): void => {
    const nowMs = systemClock.now();
    timeline.add(nowMs, 'requests');
    if (what !== undefined) timeline.add(nowMs, what);
    progress.show(() => {
      const { sent } = load.report();
      const all = countText(settings.requests);
      return `sent ${countText(sent)} of ${all} requests; Ctrl-C to stop`;
    });
  };
  const load = new Load({
    url,
    requests: traffic(settings),
    startMs,
    onResponse: (_, status) => count(isDenial(status) ? 'denied' : undefined),
    onFailure: () => count('failed'),
  });
  const stop = (): void => load.stop();
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, stop);
  const report = await load.run().finally(() => progress.end());
  for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, stop);
  const [why] = Object.keys(report.failures);
  if (report.responses === 0 && why !== undefined) {
    throw new Failure(`Cannot reach ${url.origin} (${visible(why)}). No request got a response.`);
  }
  return { kind: 'generate', settings, url: url.href, ...report, timeline: timeline.data() };
}

async function run(context: Context, args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as GenerateOptions;
  const { output } = context;
  const shape = shapeOf(args[0]);
  if (options.against === undefined) {
    if (options.rate !== undefined)
      throw new Failure('Expected --rate with --against, got it alone');
    const { seed, requests, clients, duration: durationMs, window: windowMs } = options;
    const startMs = options.start;
    const all = { shape, seed, requests, clients, durationMs, windowMs, startMs };
    await writeLog(output, settingsOf(all), options);
    return EXIT_OK;
  }
  const url = loopbackUrl(options.against);
  const result = await sendLoad(output, shape, options, url);
  printResult(output, options, result, () => loadLines(result, output.paint));
  return Object.keys(result.failures).length === 0 ? EXIT_OK : EXIT_DENIED;
}

const widest = Math.max(...SHAPE_NAMES.map(({ length }) => length));
const shapeList = SHAPE_NAMES.map((name) => `  ${name.padEnd(widest)}  ${SHAPES[name].summary}`);

export const generate: Command = {
  values: SHAPE_NAMES,
  options: () => [
    new Option(
      '--seed <number>',
      'random seed; the same seed gives the same traffic (default: 1)',
    ).argParser(integerValue(0)),
    new Option('--requests <number>', 'number of requests (default: 10000)').argParser(
      integerValue(0),
    ),
    new Option('--clients <number>', 'number of ordinary clients (default: 100)').argParser(
      integerValue(1),
    ),
    new Option(
      '--duration <duration>',
      'length of the traffic (default: 10m, diurnal 1d)',
    ).argParser(durationValue),
    new Option(
      '--window <duration>',
      'window length of the boundary shape (default: 1m)',
    ).argParser(durationValue),
    new Option(
      '--start <time>',
      'time of the first request (default: 2026-01-01T00:00:00Z)',
    ).argParser(timeValue),
    new Option('--format <format>', 'log format (default: combined)').choices(LINE_FORMATS),
    new Option('--out <file>', 'write the log to a file instead of standard output'),
    new Option('--against <url>', 'send the requests to this local URL instead').conflicts([
      'start',
      'format',
      'out',
    ]),
    new Option('--rate <number>', 'requests per second, with --against (default: 100)').argParser(
      integerValue(1, 100_000),
    ),
    new Option('--json', 'print a summary as JSON, with --out or --against'),
  ],
  epilogue: `
Shapes:
${shapeList.join('\n')}

If --against ends with /, the generated paths are appended to it. Any other URL,
such as http://127.0.0.1:8080/v1/forward-auth, is requested as is. Client
addresses are sent in X-Forwarded-For. The exit code is 1 if a request got no
response.
`,
  run,
};
