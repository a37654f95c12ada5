/** `sluice top`: a board of what a service does, drawn again and again. */
import { Option } from 'commander';
import { type BoardSize, boardLines, PRINTED_ROWS } from '../board/board.ts';
import { wholeScreen } from '../board/screen.ts';
import { type Snapshot, Watch } from '../board/watch.ts';
import { Client, type ClientOptions, clientOptions } from '../client.ts';
import type { Command, Context } from '../command.ts';
import { durationValue } from '../option-values.ts';
import { type ExitCode, Failure, FINE, type Output } from '../output.ts';
import { pause, stopSignal } from '../pause.ts';

interface TopOptions extends ClientOptions {
  readonly once?: boolean;
  readonly interval: number;
}

const LEAST_INTERVAL_MS = 100;
/** Ctrl-C is a key like any other while keys are read one by one. */
const QUIT = ['q', 'Q', '\u0003'];

/** Of terminals only: a file has no width. */
const PRINTED_COLUMNS = 80;

/** Rates take two looks. */
async function lookTwice(watch: Watch, intervalMs: number, signal: AbortSignal): Promise<Snapshot> {
  const first = await watch.look();
  await pause(intervalMs, signal);
  return signal.aborted ? first : watch.look();
}

async function printOnce(
  output: Output,
  watch: Watch,
  options: TopOptions,
  signal: AbortSignal,
): Promise<void> {
  const shot = await lookTwice(watch, options.interval, signal);
  if (options.json) return output.printJson(shot);
  const columns = output.isTerminal ? output.size.columns : PRINTED_COLUMNS;
  const size: BoardSize = { columns, rows: PRINTED_ROWS };
  for (const line of boardLines(shot, watch, output.paint, size)) output.print(line.trimEnd());
}

/** Calls back when somebody types `q` or Ctrl-C; the answer ends that. */
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
  watch: Watch,
  intervalMs: number,
  signal: AbortSignal,
): Promise<void> {
  // Whoever cannot be asked at all is said to be so where it can be read afterwards.
  let shot = await watch.look();
  let trouble: string | undefined;
  const draw = (): void => screen.draw(boardLines(shot, watch, output.paint, output.size, trouble));
  const screen = wholeScreen(output, draw);
  try {
    draw();
    while (!signal.aborted) {
      await pause(intervalMs, signal);
      if (signal.aborted) return;
      try {
        shot = await watch.look();
        trouble = undefined;
      } catch (error) {
        if (!(error instanceof Failure)) throw error;
        trouble = error.message;
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
  if (options.interval < LEAST_INTERVAL_MS) {
    throw new Failure(`Expected --interval to be at least ${LEAST_INTERVAL_MS}ms, got less`);
  }
  const watch = new Watch(new Client(options, environment));
  const { signal, stop, release } = stopSignal();
  const isLive = output.isTerminal && environment.TERM !== 'dumb';
  try {
    if (options.once || options.json || !isLive) {
      await printOnce(output, watch, options, signal);
      return FINE;
    }
    const endQuit = onQuit(stop);
    await drawUntilStopped(output, watch, options.interval, signal).finally(endQuit);
    return FINE;
  } finally {
    release();
  }
}

export const top: Command = {
  options: () => [
    new Option('--once', 'print one board, as everywhere but on a terminal'),
    new Option('--interval <duration>', 'how often it looks')
      .argParser(durationValue)
      .default(1000, '1s'),
    ...clientOptions().filter(({ long }) => long !== '--json'),
    new Option('--json', 'print one board as JSON'),
  ],
  epilogue: `
On a terminal q or Ctrl-C ends it. Keys are those of the last five to ten minutes;
a count with + is the least that it can be.
`,
  run,
};
