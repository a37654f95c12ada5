/** How far reading has come, for people who wait for it. */
import { systemClock } from 'sluice';
import type { LogReport } from 'sluice-traffic';
import { numberText, type Output } from '../output.ts';
import { percentText } from './text.ts';

/** Often enough to be seen to go on. */
const EVERY_MS = 200;

export class Progress {
  readonly #output: Output;
  readonly #isSeen: boolean;
  readonly #startMs = systemClock.now();
  #shownMs = 0;
  #columns = 0;

  constructor(output: Output) {
    this.#output = output;
    this.#isSeen = output.errorsAreSeen;
  }

  show({ progress, lines }: LogReport): void {
    if (!this.#isSeen) return;
    const nowMs = systemClock.now();
    if (nowMs - this.#shownMs < EVERY_MS) return;
    this.#shownMs = nowMs;
    const { bytesRead, bytesTotal } = progress;
    const perSecond = Math.round((1000 * lines) / Math.max(1, nowMs - this.#startMs));
    const of = bytesTotal === undefined ? '' : ` of ${megabytes(bytesTotal)}`;
    const share = bytesTotal === undefined ? '' : ` (${percentText(bytesRead, bytesTotal)})`;
    this.#draw(`read ${megabytes(bytesRead)}${of}${share}, ${numberText(perSecond)} lines/s`);
  }

  /** Takes it away again. */
  end(): void {
    if (this.#columns > 0) this.#draw('');
  }

  #draw(text: string): void {
    this.#output.sketch(`\r${text.padEnd(this.#columns)}${text === '' ? '\r' : ''}`);
    this.#columns = text.length;
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
