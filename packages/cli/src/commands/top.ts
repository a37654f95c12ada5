/** `sluice top`: shows decision rates and top keys of a running service. */

import { Option } from 'commander';
import { durationText } from 'sluice-traffic/format';
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { durationValue } from '../option-values.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, Failure, type Output } from '../output.ts';
import { pause, stopSignal } from '../pause.ts';
import { PRINTED_ROWS, type TopSize, topLines } from '../top/board.ts';
import { ServicePoller, type TopResult } from '../top/poller.ts';
import { fullScreen } from '../top/screen.ts';
import { Progress } from '../traffic/progress.ts';
import { printResult } from '../traffic/report.ts';

interface TopOptions extends ClientOptions {
  readonly once?: boolean;
  readonly interval: number;
  readonly for?: number;
}

const MIN_INTERVAL_MS = 100;
/** In raw mode, Ctrl-C arrives as a character. */
const QUIT = ['q', 'Q', '\u0003'];

/** Width if standard output is not a terminal. */
const PRINTED_COLUMNS = 80;

/** Polls for the duration of `--for`, and at least twice, because a rate needs two snapshots. */
async function pollFor(
  output: Output,
  poller: ServicePoller,
  { interval, for: forMs = interval }: TopOptions,
  signal: AbortSignal,
): Promise<TopResult> {
  const progress = new Progress(output);
  let snapshot = await poller.poll();
  const endMs = snapshot.atMs + forMs;
  try {
    while (!signal.aborted && snapshot.atMs < endMs) {
      const leftMs = endMs - snapshot.atMs;
      progress.show(() => `watching, ${durationText(leftMs)} left; Ctrl-C to stop early`);
      // If less than half an interval would follow this pause, extend the pause to the end.
      await pause(leftMs < 1.5 * interval ? leftMs : interval, signal);
      if (!signal.aborted) snapshot = await poller.poll();
    }
  } finally {
    progress.end();
  }
  return poller.summary(snapshot);
}

async function printOnce(
  output: Output,
  poller: ServicePoller,
  options: TopOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const result = await pollFor(output, poller, options, signal);
  const columns = output.isTerminal ? output.size.columns : PRINTED_COLUMNS;
  const size: TopSize = { columns, rows: PRINTED_ROWS };
  printResult(output, options, result, () =>
    topLines(result, poller, output.paint, size).map((line) => line.trimEnd()),
  );
  return result.ready ? EXIT_OK : EXIT_DENIED;
}

/** Calls `quit` on `q` or Ctrl-C. Returns a function that stops listening. */
function onQuit(quit: () => void): () => void {
  const { stdin } = process;
  if (!stdin.isTTY) return () => {};
  const typed = (bytes: Buffer): void => {
    if (QUIT.some((key) => bytes.includes(key))) quit();
  };
  stdin.setRawMode(true);
  stdin.on('data', typed);
  return () => {
    stdin.off('data', typed);
    stdin.setRawMode(false);
    stdin.pause();
  };
}

async function drawUntilStopped(
  output: Output,
  poller: ServicePoller,
  intervalMs: number,
  signal: AbortSignal,
): Promise<void> {
  // Poll before opening the alternate screen, so that an error of the first poll stays visible.
  let snapshot = await poller.poll();
  let pollError: string | undefined;
  const draw = (): void =>
    screen.draw(topLines(snapshot, poller, output.paint, output.size, pollError));
  const screen = fullScreen(output, draw);
  try {
    draw();
    while (!signal.aborted) {
      await pause(intervalMs, signal);
      if (signal.aborted) return;
      try {
        snapshot = await poller.poll();
        pollError = undefined;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        pollError = error.message;
      }
      draw();
    }
  } finally {
    screen.close();
  }
}

async function run(context: Context, _args: readonly unknown[], given: object): Promise<ExitCode> {
  const options = given as TopOptions;
  const { output, environment } = context;
  if (options.interval < MIN_INTERVAL_MS) {
    throw new Failure(`Expected --interval to be at least ${MIN_INTERVAL_MS}ms, got less`);
  }
  const poller = new ServicePoller(new Client(options, environment));
  const { signal, stop, release } = stopSignal();
  const isLive = output.isTerminal && environment.TERM !== 'dumb';
  try {
    const isOnce = [options.once, options.json, options.for].some(Boolean);
    if (isOnce || !isLive) {
      return await printOnce(output, poller, options, signal);
    }
    const endQuit = onQuit(stop);
    await drawUntilStopped(output, poller, options.interval, signal).finally(endQuit);
    return EXIT_OK;
  } finally {
    release();
  }
}

export const top: Command = {
  options: () => [
    new Option('--once', 'print once (default unless on a terminal)'),
    new Option('--interval <duration>', 'polling interval')
      .argParser(durationValue)
      .default(1000, '1s'),
    new Option(
      '--for <duration>',
      'watch for this long, then print once (default: --interval)',
    ).argParser(durationValue),
    ...clientOptions().filter(({ long }) => long !== '--json'),
    new Option('--json', 'print once, as JSON'),
  ],
  epilogue: `
On a terminal, q or Ctrl-C quits. Top keys cover the last 5 to 10 minutes; a
count with + is a lower bound. If printed once, rates are means over the time
watched, and the exit code is 1 if the service is not ready.
`,
  run,
};
