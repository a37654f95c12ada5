/** `sluice demo`: runs a service with sample traffic and shows its decisions. */

import { Option } from 'commander';
import { systemClock } from 'sluice';
import { SettingsError } from 'sluice-server';
import { generateTraffic, Timeline, type TimelineData } from 'sluice-traffic';
import { countText, durationText } from 'sluice-traffic/format';
import type { Command, Context } from '../command.ts';
import { BoundaryProof, type BoundaryRun } from '../demo/boundary.ts';
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
import { CLIENT, COMPARED, startDemoService } from '../demo/service.ts';
import { Load, type LoadReport } from '../load/load.ts';
import { durationValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, type Output } from '../output.ts';
import { pause, stopSignal } from '../pause.ts';
import { inPlace } from '../top/screen.ts';
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
  /** True if the first burst was decided before the window boundary and the second after it. */
  readonly isShown: boolean;
  readonly boundary: readonly (Omit<BoundaryRun, 'retryAtMs'> & typeof COMPARED)[];
  readonly timeline: TimelineData<'allowed' | 'denied'>;
}

const DEFAULT_MS = 10_000;
const CLIENTS = 40;
const REQUESTS_PER_S = 200;
/** Length of the traffic: longer than any demo. Each request is generated when it is due. */
const TRAFFIC_S = 30 * 86_400;
const FRAME_MS = 100;
const PLAIN_LINE_MS = 2000;
/** Interval of status lines with `--keep`. */
const KEPT_LINE_MS = 60_000;
const SHOWN_STEPS = 24;

/** The running demo and its counts so far. */
class Show {
  readonly startedMs = systemClock.now();
  readonly load: Load;
  readonly proof: BoundaryProof;
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
    this.proof = new BoundaryProof(url, signal);
  }

  get elapsedMs(): number {
    return systemClock.now() - this.startedMs;
  }

  #count(isDenied: boolean): void {
    this.addSteps();
    this.timeline.add(systemClock.now(), isDenied ? 'denied' : 'allowed');
    (isDenied ? this.denied : this.allowed)[this.allowed.length - 1]++;
  }

  /** Adds a column to the charts for each `STEP_MS` up to now, also if it has no requests. */
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
function tryLines({ url, load }: Show): readonly string[] {
  const { policy } = CLIENT;
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
function frame(show: Show, output: Output, endMs: number, isKept: boolean): readonly string[] {
  const { paint } = output;
  const leftS = Math.ceil((endMs - show.elapsedMs) / 1000);
  const rest = isKept ? 'Ctrl-C to stop' : leftS > 0 ? `${leftS} s left` : '';
  const heading = `Sluice listens on ${show.url}`;
  show.addSteps();
  return [
    `${paint('bold', heading)}${rest.padStart(78 - heading.length)}`,
    '',
    boundaryHeading(),
    ...boundaryLines(show.proof.state, systemClock.now(), paint),
    '',
    ...crowdText(CLIENTS).split('\n'),
    ...trafficLines({ report: show.load.report(), ...show }, paint),
  ];
}

/** Redraws until the demo is over. */
async function animate(show: Show, output: Output, options: Duration): Promise<void> {
  const { isKept } = options;
  const screen = inPlace(output);
  try {
    while (!show.signal.aborted && !isOver(show, options)) {
      const lines = frame(show, output, options.forMs, isKept);
      screen.draw([...lines, '', ...tryLines(show)]);
      await pause(FRAME_MS, show.signal);
    }
    screen.draw(frame(show, output, 0, false));
  } finally {
    screen.close();
  }
}

/** How long the demo runs. */
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

const isOver = ({ elapsedMs, proof }: Show, { isKept, forMs }: Duration): boolean =>
  !isKept && elapsedMs >= forMs && proof.state.phase === 'over';

/** Prints status lines, if standard output is not a terminal. */
async function printStatus(show: Show, output: Output, options: Duration): Promise<void> {
  output.print(`Sluice listens on ${show.url}, store: memory.`);
  output.print(`\n${boundaryHeading()}\n`);
  while (!show.signal.aborted && show.proof.state.phase !== 'over') {
    await pause(FRAME_MS, show.signal);
  }
  if (show.signal.aborted) return;
  for (const line of boundaryLines(show.proof.state, undefined, output.paint)) output.print(line);
  output.print(`\n${crowdText(CLIENTS)}`);
  printTraffic(show, output);
  let dueMs = show.elapsedMs + PLAIN_LINE_MS;
  let isKeptOn = false;
  while (!show.signal.aborted && !isOver(show, options)) {
    await pause(FRAME_MS, show.signal);
    if (options.isKept && !isKeptOn && show.elapsedMs >= options.forMs) {
      isKeptOn = true;
      for (const line of ['', ...tryLines(show), 'Press Ctrl-C to stop.']) output.print(line);
    }
    if (show.elapsedMs < dueMs) continue;
    dueMs = show.elapsedMs + (isKeptOn ? KEPT_LINE_MS : PLAIN_LINE_MS);
    printTraffic(show, output);
  }
}

function printTraffic({ elapsedMs, load }: Show, output: Output): void {
  const report = load.report();
  const [allowed, denied] = [allowedOf(report), deniedOf(report)].map(countText);
  const seconds = Math.round(elapsedMs / 1000);
  output.print(`  after ${seconds} s: ${allowed} allowed, ${denied} denied`);
}

/** Waits until the demo is over, with progress on standard error. */
async function waitFor(show: Show, output: Output, options: Duration): Promise<void> {
  const progress = new Progress(output);
  while (!show.signal.aborted && !isOver(show, options)) {
    const leftMs = Math.max(0, options.forMs - show.elapsedMs);
    progress.show(() => (options.isKept ? 'Ctrl-C to stop' : `${durationText(leftMs)} left`));
    await pause(FRAME_MS, show.signal);
  }
  progress.end();
}

const resultOf = ({ url, proof, timeline }: Show, report: LoadReport): DemoResult => ({
  kind: 'demo',
  url,
  tookMs: report.tookMs,
  requests: report.responses,
  allowed: allowedOf(report),
  denied: deniedOf(report),
  firstDeniedMs: report.firstDeniedMs,
  each: { limit: CLIENT.limit, windowMs: CLIENT.windowMs },
  deniedClients: report.denied,
  isShown: proof.isShown,
  boundary: proof.state.runs.map(({ retryAtMs: _, ...run }) => ({ ...COMPARED, ...run })),
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
    const show = new Show(service.url, signal);
    const load = show.load.run();
    const proof = show.proof.run();
    // `Promise.all` below handles the errors; an earlier rejection must not end the process.
    for (const each of [load, proof]) each.catch(() => {});
    const isLive = output.isTerminal && environment.TERM !== 'dumb' && !environment.CI;
    const duration = durationOf(options, isLive);
    if (options.json) await waitFor(show, output, duration);
    else if (isLive) await animate(show, output, duration);
    else await printStatus(show, output, duration);
    const isStopped = signal.aborted;
    stop();
    show.load.stop();
    const [report] = await Promise.all([load, proof]);
    const result = resultOf(show, report);
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

/** Returns whether requests were denied, and sliding-log kept the limit and allowed the retry. */
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
