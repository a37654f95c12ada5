/** `sluice demo`: runs a service with sample traffic and shows its decisions. */

import { Option } from 'commander';
import { systemClock } from 'sluice';
import { SettingsError } from 'sluice-server';
import { generateTraffic, Timeline, type TimelineData } from 'sluice-traffic';
import { countText, durationText } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { BoundaryDemo, type BoundaryRun } from '../demo/boundary.ts';
import {
  allowedOf,
  boundaryHeading,
  boundaryLines,
  crowdText,
  deniedOf,
  STEP_MS,
  summaryLines,
  trafficLines,
} from '../demo/picture.ts';
import { CLIENT_LIMIT, COMPARED_LIMIT, startDemoService } from '../demo/service.ts';
import { Load, type LoadReport } from '../load/load.ts';
import { durationValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, type Output } from '../output.ts';
import { pause, stopSignal } from '../pause.ts';
import { inlineScreen } from '../top/screen.ts';
import { Progress } from '../traffic/progress.ts';
import { type PrintOptions, printResult } from '../traffic/report.ts';

interface DemoOptions extends PrintOptions {
  readonly listen: string;
  readonly for?: number;
  readonly keep?: boolean;
}

/** The result that `--json` prints. */
interface DemoResult {
  readonly kind: 'demo';
  readonly url: string;
  readonly tookMs: number;
  readonly requests: number;
  readonly allowed: number;
  readonly denied: number;
  readonly firstDeniedMs: number | undefined;
  /** Limit of each client. */
  readonly each: { readonly limit: number; readonly windowMs: number };
  readonly deniedClients: LoadReport['denied'];
  /**
   * True if the first burst was decided before the window boundary and the second burst after it.
   */
  readonly isShown: boolean;
  readonly boundary: readonly (Omit<BoundaryRun, 'retryAtMs'> & typeof COMPARED_LIMIT)[];
  readonly timeline: TimelineData<'allowed' | 'denied'>;
}

const DEFAULT_MS = 10_000;
const CLIENTS = 40;
const REQUESTS_PER_S = 200;
/**
 * Duration of the generated traffic, longer than any demo. Each request is generated only when it
 * is due.
 */
const TRAFFIC_S = 30 * 86_400;
const FRAME_MS = 100;
const PLAIN_LINE_MS = 2000;
/** Interval of the status lines after the planned duration, with `--keep`. */
const KEPT_LINE_MS = 60_000;
const SHOWN_STEPS = 24;

/** A running demo and its counts so far. */
class RunningDemo {
  readonly startedMs = systemClock.now();
  readonly load: Load;
  readonly boundary: BoundaryDemo;
  readonly allowed: number[] = [];
  readonly denied: number[] = [];
  readonly timeline = new Timeline(['allowed', 'denied']);
  #stepMs = 0;

  constructor(
    readonly url: string,
    readonly signal: AbortSignal,
  ) {
    const { startedMs } = this;
    const requests = generateTraffic({
      shape: 'abuser',
      clients: CLIENTS,
      requests: REQUESTS_PER_S * TRAFFIC_S,
      durationMs: 1000 * TRAFFIC_S,
      startMs: startedMs,
    });
    const target = new URL('/v1/forward-auth', url);
    const onResponse = (_: unknown, status: number): void => this.#count(status === 429);
    this.load = new Load({ url: target, requests, startMs: startedMs, onResponse });
    this.boundary = new BoundaryDemo(url, signal);
  }

  get elapsedMs(): number {
    return systemClock.now() - this.startedMs;
  }

  #count(isDenied: boolean): void {
    this.addSteps();
    this.timeline.add(systemClock.now(), isDenied ? 'denied' : 'allowed');
    (isDenied ? this.denied : this.allowed)[this.allowed.length - 1]++;
  }

  /** Adds columns to the charts up to the current time, one for each `STEP_MS`. */
  addSteps(): void {
    for (; this.#stepMs <= this.elapsedMs; this.#stepMs += STEP_MS) {
      for (const counts of [this.allowed, this.denied]) {
        counts.push(0);
        if (counts.length > SHOWN_STEPS) counts.shift();
      }
    }
  }
}

/** Returns commands that the user can copy while the service runs. */
function tryLines({ url, load }: RunningDemo): readonly string[] {
  const { policy } = CLIENT_LIMIT;
  const abuser = load.report().denied[0]?.client ?? 'me';
  return [
    'Try it:',
    `  ${url}/dashboard/`,
    `  curl -i '${new URL(url).host}/v1/check?enforce' -d '{"policy":"${policy}","key":"me"}'`,
    `  npx sluice top --url ${url}`,
    `  npx sluice inspect ${policy} ${abuser} --url ${url}`,
  ];
}

const NEXT_LINES = [
  'Next steps:',
  '  npx sluice demo --keep                         run until Ctrl-C',
  '  npx sluice serve                               run the service',
  '  npx sluice generate abuser --out access.log    write such traffic to a log',
  '  npx sluice suggest access.log                  suggest a limit for it',
];

const BUSY = 'The machine was too busy to send the bursts in time: no boundary is shown.';

/** Returns the lines of one frame. */
function frame(
  running: RunningDemo,
  output: Output,
  endMs: number,
  isKept: boolean,
): readonly string[] {
  const { paint } = output;
  const leftS = Math.ceil((endMs - running.elapsedMs) / 1000);
  const rest = isKept ? 'Ctrl-C to stop' : leftS > 0 ? `${leftS} s left` : '';
  const heading = `Sluice listens on ${running.url}`;
  running.addSteps();
  return [
    `${paint('bold', heading)}${rest.padStart(78 - heading.length)}`,
    '',
    boundaryHeading(),
    ...boundaryLines(running.boundary.state, systemClock.now(), paint),
    '',
    ...crowdText(CLIENTS).split('\n'),
    ...trafficLines({ report: running.load.report(), ...running }, paint),
  ];
}

/** Redraws until the demo is over. */
async function animate(running: RunningDemo, output: Output, options: Duration): Promise<void> {
  const { isKept } = options;
  const screen = inlineScreen(output);
  try {
    while (!running.signal.aborted && !isOver(running, options)) {
      const lines = frame(running, output, options.forMs, isKept);
      screen.draw([...lines, '', ...tryLines(running)]);
      await pause(FRAME_MS, running.signal);
    }
    screen.draw(frame(running, output, 0, false));
  } finally {
    screen.close();
  }
}

/** The duration of the demo. */
interface Duration {
  readonly forMs: number;
  /** True if the demo runs until Ctrl-C. */
  readonly isKept: boolean;
}

/** On a terminal, the demo runs until Ctrl-C unless a duration is given. */
function durationOf(options: DemoOptions, isLive: boolean): Duration {
  const isKept = options.keep ?? (isLive && options.for === undefined && !options.json);
  return { forMs: options.for ?? DEFAULT_MS, isKept };
}

const isOver = ({ elapsedMs, boundary }: RunningDemo, { isKept, forMs }: Duration): boolean =>
  !isKept && elapsedMs >= forMs && boundary.state.phase === 'over';

/** Prints status lines until the demo is over, for output that is not a terminal. */
async function printStatus(running: RunningDemo, output: Output, options: Duration): Promise<void> {
  output.print(`Sluice listens on ${running.url}, store: memory.`);
  output.print(`\n${boundaryHeading()}\n`);
  while (!running.signal.aborted && running.boundary.state.phase !== 'over') {
    await pause(FRAME_MS, running.signal);
  }
  if (running.signal.aborted) return;
  for (const line of boundaryLines(running.boundary.state, undefined, output.paint))
    output.print(line);
  output.print(`\n${crowdText(CLIENTS)}`);
  printTraffic(running, output);
  let dueMs = running.elapsedMs + PLAIN_LINE_MS;
  let isPastDuration = false;
  while (!running.signal.aborted && !isOver(running, options)) {
    await pause(FRAME_MS, running.signal);
    if (options.isKept && !isPastDuration && running.elapsedMs >= options.forMs) {
      isPastDuration = true;
      for (const line of ['', ...tryLines(running), 'Press Ctrl-C to stop.']) output.print(line);
    }
    if (running.elapsedMs < dueMs) continue;
    dueMs = running.elapsedMs + (isPastDuration ? KEPT_LINE_MS : PLAIN_LINE_MS);
    printTraffic(running, output);
  }
}

function printTraffic({ elapsedMs, load }: RunningDemo, output: Output): void {
  const report = load.report();
  const [allowed, denied] = [allowedOf(report), deniedOf(report)].map(countText);
  const seconds = Math.round(elapsedMs / 1000);
  output.print(`  after ${seconds} s: ${allowed} allowed, ${denied} denied`);
}

/** Waits until the demo is over, with progress on standard error. */
async function waitFor(running: RunningDemo, output: Output, options: Duration): Promise<void> {
  const progress = new Progress(output);
  while (!running.signal.aborted && !isOver(running, options)) {
    const leftMs = Math.max(0, options.forMs - running.elapsedMs);
    progress.show(() => (options.isKept ? 'Ctrl-C to stop' : `${durationText(leftMs)} left`));
    await pause(FRAME_MS, running.signal);
  }
  progress.end();
}

const resultOf = ({ url, boundary, timeline }: RunningDemo, report: LoadReport): DemoResult => ({
  kind: 'demo',
  url,
  tookMs: report.tookMs,
  requests: report.responses,
  allowed: allowedOf(report),
  denied: deniedOf(report),
  firstDeniedMs: report.firstDeniedMs,
  each: { limit: CLIENT_LIMIT.limit, windowMs: CLIENT_LIMIT.windowMs },
  deniedClients: report.denied,
  isShown: boundary.isShown,
  boundary: boundary.state.runs.map(({ retryAtMs: _, ...run }) => ({ ...COMPARED_LIMIT, ...run })),
  timeline: timeline.data(),
});

async function run(context: Context, _args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as DemoOptions;
  const { output, environment } = context;
  const service = await startDemoService(options.listen).catch((error) => {
    throw error instanceof SettingsError ? new Failure(error.message) : error;
  });
  const { signal, stop, release } = stopSignal();
  try {
    const running = new RunningDemo(service.url, signal);
    const load = running.load.run();
    const bursts = running.boundary.run();
    // `Promise.all` below handles the errors; an earlier rejection must not end the process.
    for (const each of [load, bursts]) each.catch(() => {});
    const isLive = output.isTerminal && environment.TERM !== 'dumb' && !environment.CI;
    const duration = durationOf(options, isLive);
    if (options.json) await waitFor(running, output, duration);
    else if (isLive) await animate(running, output, duration);
    else await printStatus(running, output, duration);
    const isStopped = signal.aborted;
    stop();
    running.load.stop();
    const [report] = await Promise.all([load, bursts]);
    const result = resultOf(running, report);
    const isFine = isStopped || isProven(result);
    const busy = isStopped || result.isShown ? [] : [BUSY];
    printResult(output, options, result, () => [
      ...['', ...summaryLines(report), ...busy],
      ...['', ...NEXT_LINES],
    ]);
    return isFine ? EXIT_OK : EXIT_DENIED;
  } finally {
    release();
    await service.close();
  }
}

/**
 * Returns true if requests were denied, the bursts were decided on both sides of the boundary, and
 * sliding-log stayed within the limit and allowed the retry.
 */
const isProven = ({ denied, isShown, boundary }: DemoResult): boolean =>
  denied > 0 &&
  isShown &&
  boundary.every(
    ({ algorithm, limit, passed, retryAllowed }) =>
      algorithm === 'fixed-window' || (passed[0] + passed[1] <= limit && retryAllowed === true),
  );

export const demo: Command = {
  options: () => [
    new Option(
      '--for <duration>',
      'duration of the demo (default: until Ctrl-C on a terminal, else 10s)',
    ).argParser(durationValue),
    new Option('--keep', 'run until Ctrl-C'),
    new Option('--listen <address>', 'loopback address to listen on').default(
      '127.0.0.1:0',
      'a free port on 127.0.0.1',
    ),
    new Option('--json', 'print the result as JSON at the end'),
  ],
  epilogue: `
The exit code is 1 if the machine is too busy to show the boundary.
`,
  run,
};
