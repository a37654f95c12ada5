/** Progress of long commands, on standard error. */

import { systemClock } from 'sluice';
import type { LogReport } from 'sluice-traffic';
import { countText, percentText } from 'sluice-traffic/format';
import type { Output } from '../output.ts';

const EVERY_MS = 200;

export class Progress {
  readonly #output: Output;
  readonly #isVisible: boolean;
  #shownMs = 0;
  #columns = 0;

  constructor(output: Output, isEnabled = true) {
    this.#output = output;
    this.#isVisible = isEnabled && output.isErrorTerminal;
  }

  /** Shows the text on a terminal, at most every 200 ms. */
  show(text: () => string): void {
    if (!this.#isVisible) return;
    const nowMs = systemClock.now();
    if (nowMs - this.#shownMs < EVERY_MS) return;
    this.#shownMs = nowMs;
    this.#draw(text());
  }

  /** Clears the line. */
  end(): void {
    if (this.#columns > 0) this.#draw('');
  }

  #draw(text: string): void {
    // A longer line would wrap, and only its last part would be cleared.
    const shown = text.slice(0, this.#output.size.columns - 1);
    this.#output.writeError(`\r${shown.padEnd(this.#columns)}${shown === '' ? '\r' : ''}`);
    this.#columns = shown.length;
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** Returns a text such as `read 12.0 MB of 40.0 MB (30.0%), 400,000 lines/s`. */
export function readingText({ progress, lines }: LogReport, sinceMs: number): string {
  const { bytesRead, bytesTotal } = progress;
  const perSecond = Math.round((1000 * lines) / Math.max(1, systemClock.now() - sinceMs));
  const of = bytesTotal === undefined ? '' : ` of ${megabytes(bytesTotal)}`;
  const share = bytesTotal === undefined ? '' : ` (${percentText(bytesRead, bytesTotal)})`;
  return `read ${megabytes(bytesRead)}${of}${share}, ${countText(perSecond)} lines/s`;
}
