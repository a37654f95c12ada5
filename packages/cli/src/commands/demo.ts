/** `sluice demo`: a service, traffic on it, and what there is to see, for some seconds. */
import { Option } from 'commander';
import { systemClock } from 'sluice';
import { SettingsError } from 'sluice-server';
import { generateTraffic } from 'sluice-traffic';
import { inPlace } from '../board/screen.ts';
import type { Command, Context } from '../command.ts';
import { BoundaryProof } from '../demo/boundary.ts';
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
import { type ExitCode, Failure, FINE, numberText, type Output } from '../output.ts';
import { pause, stopSignal } from '../pause.ts';

interface DemoOptions {
  readonly listen: string;
  readonly for: number;
  readonly keep?: boolean;
  readonly json?: boolean;
}

const CLIENTS = 40;
const REQUESTS_PER_S = 200;
/** It is stopped long before; traffic is made as it is sent. */
const TRAFFIC_S = 30 * 86_400;
const FRAME_MS = 100;
const PLAIN_LINE_MS = 2000;
/** Whoever has it run on does not want to read about it all the time. */
const KEPT_LINE_MS = 60_000;
const SEEN_STEPS = 24;

/** All that goes on, and what has been seen of it so far. */
class Show {
  readonly startedMs = systemClock.now();
  readonly load: Load;
  readonly proof: BoundaryProof;
  readonly allowed: number[] = [];
  readonly denied: number[] = [];
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
    const onAnswer = (_: unknown, status: number): void => this.#count(status === 429);
    this.load = new Load({ url: target, requests, startMs: startedMs, onAnswer });
    this.proof = new BoundaryProof(url, signal);
  }

  get elapsedMs(): number {
    return systemClock.now() - this.startedMs;
  }

  #count(isDenied: boolean): void {
    this.steps();
    (isDenied ? this.denied : this.allowed)[this.allowed.length - 1]++;
  }

  /** Steps that nothing happened in are there as well. */
  steps(): void {
    for (; this.#stepMs <= this.elapsedMs; this.#stepMs += STEP_MS) {
      for (const counts of [this.allowed, this.denied]) {
        counts.push(0);
        if (counts.length > SEEN_STEPS) counts.shift();
      }
    }
  }
}

/** Commands that work as they stand, as long as the service runs. */
function lookLines({ url, load }: Show): readonly string[] {
  const { policy } = CLIENT;
  const abuser = load.report().denied[0]?.client ?? 'me';
  return [
    'Look around:',
    `  curl -i '${new URL(url).host}/v1/check?enforce' -d '{"policy":"${policy}","key":"me"}'`,
    `  npx sluice top --url ${url}`,
    `  npx sluice inspect ${policy} ${abuser} --url ${url}`,
  ];
}

const NEXT_LINES = [
  'What to try next:',
  '  npx sluice demo --keep             the same, until Ctrl-C, to look around in',
  '  npx sluice serve                   a service that stays, with a small example',
  '  npx sluice generate abuser         the same traffic as an access log',
  '  npx sluice suggest access.log      a limit that fits the traffic of a log',
];

/** The whole picture, drawn again and again. */
function frame(show: Show, output: Output, endMs: number, isKept: boolean): readonly string[] {
  const { paint } = output;
  const leftS = Math.ceil((endMs - show.elapsedMs) / 1000);
  const rest = isKept ? 'Ctrl-C stops it' : leftS > 0 ? `${leftS} s left` : '';
  const heading = `Sluice listens on ${show.url}`;
  show.steps();
  return [
    `${paint('bold', heading)}${rest.padStart(78 - heading.length)}`,
    '',
    ...crowdText(CLIENTS).split('\n'),
    ...trafficLines({ report: show.load.report(), ...show }, paint),
    '',
    boundaryHeading(),
    ...boundaryLines(show.proof.state, systemClock.now(), paint),
  ];
}

/** Redraws until everything has been shown. */
async function animate(show: Show, output: Output, options: DemoOptions): Promise<void> {
  const isKept = options.keep === true;
  const screen = inPlace(output);
  try {
    while (!show.signal.aborted && !isOver(show, options)) {
      const lines = frame(show, output, options.for, isKept);
      screen.draw([...lines, '', ...lookLines(show)]);
      await pause(FRAME_MS, show.signal);
    }
    screen.draw(frame(show, output, 0, false));
  } finally {
    screen.close();
  }
}

const isOver = ({ elapsedMs, proof }: Show, options: DemoOptions): boolean =>
  !options.keep && elapsedMs >= options.for && proof.state.phase === 'over';

/** A line now and then, for logs and for whoever has no terminal. */
async function narrate(show: Show, output: Output, options: DemoOptions): Promise<void> {
  output.print(`Sluice listens on ${show.url}, with its counters in memory.`);
  output.print(crowdText(CLIENTS));
  let dueMs = PLAIN_LINE_MS;
  let isProofTold = false;
  let isKeptOn = false;
  while (!show.signal.aborted && !isOver(show, options)) {
    await pause(FRAME_MS, show.signal);
    const { elapsedMs, load, proof } = show;
    if (!isProofTold && proof.state.phase === 'over' && !show.signal.aborted) {
      isProofTold = true;
      printProof(show, output);
    }
    if (options.keep && !isKeptOn && isProofTold && elapsedMs >= options.for) {
      isKeptOn = true;
      for (const line of lookLines(show)) output.print(line);
      output.print('Ctrl-C stops it.');
    }
    if (elapsedMs < dueMs) continue;
    dueMs = elapsedMs + (isKeptOn ? KEPT_LINE_MS : PLAIN_LINE_MS);
    const report = load.report();
    const [allowed, denied] = [allowedOf(report), deniedOf(report)].map(numberText);
    const seconds = Math.round(elapsedMs / 1000);
    output.print(`  after ${seconds} s: ${allowed} allowed, ${denied} denied`);
  }
}

function printProof({ proof }: Show, output: Output): void {
  output.print(`\n${boundaryHeading()}\n`);
  for (const line of boundaryLines(proof.state, undefined, output.paint)) output.print(line);
  if (!proof.isShown) output.print('  This machine was too busy to send the bursts in time.');
  output.print('');
}

const jsonOf = (show: Show, report: LoadReport): object => ({
  url: show.url,
  tookMs: report.tookMs,
  requests: report.answered,
  allowed: allowedOf(report),
  denied: deniedOf(report),
  firstDeniedMs: report.firstDeniedMs,
  mostDenied: report.denied[0],
  boundary: show.proof.state.runs.map(({ algorithm, passed, retryAfterMs, cameBack }) => ({
    algorithm,
    ...COMPARED,
    passed,
    retryAfterMs,
    cameBack,
  })),
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
    const isLive = output.isTerminal && environment.TERM !== 'dumb' && !environment.CI;
    if (options.json) {
      while (!signal.aborted && !isOver(show, options)) await pause(FRAME_MS, signal);
    } else if (isLive) await animate(show, output, options);
    else await narrate(show, output, options);
    stop();
    show.load.stop();
    const [report] = await Promise.all([load, proof]);
    if (options.json) output.printJson(jsonOf(show, report));
    else for (const line of ['', ...summaryLines(report), '', ...NEXT_LINES]) output.print(line);
    return FINE;
  } finally {
    release();
    await service.close();
  }
}

export const demo: Command = {
  options: () => [
    new Option('--for <duration>', 'how long it lasts')
      .argParser(durationValue)
      .default(10_000, '10s'),
    new Option('--keep', 'go on until Ctrl-C'),
    new Option('--listen <address>', 'where the service listens').default(
      '127.0.0.1:0',
      'a free port of 127.0.0.1',
    ),
    new Option('--json', 'print what came of it as JSON, at the end'),
  ],
  run,
};
