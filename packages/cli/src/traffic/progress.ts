/** How far long work has come, for people who wait for it. */

import { systemClock } from 'sluice';
import type { LogReport } from 'sluice-traffic';
import { countText, percentText } from 'sluice-traffic/format';
import type { Output } from '../output.ts';

/** Often enough to be seen to go on. */
const EVERY_MS = 200;

export class Progress {
  readonly #output: Output;
  readonly #isSeen: boolean;
  #shownMs = 0;
  #columns = 0;

  constructor(output: Output, isWanted = true) {
    this.#output = output;
    this.#isSeen = isWanted && output.isErrorTerminal;
  }

  /** Says it, if somebody is there to see it, and not too often. */
  show(text: () => string): void {
    if (!this.#isSeen) return;
    const nowMs = systemClock.now();
    if (nowMs - this.#shownMs < EVERY_MS) return;
    this.#shownMs = nowMs;
    this.#draw(text());
  }

  /** Takes it away again. */
  end(): void {
    if (this.#columns > 0) this.#draw('');
  }

  #draw(text: string): void {
    // What is wider than the terminal would go on in a line that is not taken away.
    const shown = text.slice(0, this.#output.size.columns - 1);
    this.#output.writeError(`\r${shown.padEnd(this.#columns)}${shown === '' ? '\r' : ''}`);
    this.#columns = shown.length;
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** `read 12.0 MB of 40.0 MB (30.0%), 400,000 lines/s` */
export function readingText({ progress, lines }: LogReport, sinceMs: number): string {
  const { bytesRead, bytesTotal } = progress;
  const perSecond = Math.round((1000 * lines) / Math.max(1, systemClock.now() - sinceMs));
  const of = bytesTotal === undefined ? '' : ` of ${megabytes(bytesTotal)}`;
  const share = bytesTotal === undefined ? '' : ` (${percentText(bytesRead, bytesTotal)})`;
  return `read ${megabytes(bytesRead)}${of}${share}, ${countText(perSecond)} lines/s`;
}
