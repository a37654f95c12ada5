/** Redraws lines in place on a terminal. */
import type { Output } from '../output.ts';
import { cutTo } from './text.ts';

const HIDE_CURSOR = '\u001b[?25l';
const SHOW_CURSOR = '\u001b[?25h';
const ALTERNATE_SCREEN = '\u001b[?1049h';
const MAIN_SCREEN = '\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_ALL = '\u001b[2J';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
const up = (lines: number): string => (lines > 0 ? `\u001b[${lines}A` : '');

export interface Screen {
  draw(lines: readonly string[]): void;
  close(): void;
}

/** Returns a screen below the previous output. Its last frame stays after `close`. */
export function inlineScreen(output: Output): Screen {
  let drawn = 0;
  output.write(HIDE_CURSOR);
  // After a resize, clear the whole screen: the terminal may have wrapped lines, so their number is
  // unknown.
  const endResize = output.onResize(() => {
    output.write(CLEAR_ALL + HOME);
    drawn = 0;
  });
  return {
    draw(lines) {
      const { columns, rows } = output.size;
      const shown = lines.slice(0, rows - 1).map((line) => cutTo(line, columns) + CLEAR_LINE);
      output.write(`\r${up(drawn)}${shown.join('\n')}\n${CLEAR_BELOW}`);
      drawn = shown.length;
    },
    close() {
      endResize();
      output.write(SHOW_CURSOR);
    },
  };
}

/** Returns the alternate screen of the terminal. `close` restores the main screen. */
export function fullScreen(output: Output, resized: () => void): Screen {
  output.write(ALTERNATE_SCREEN + HIDE_CURSOR + CLEAR_ALL);
  const endResize = output.onResize(() => {
    output.write(CLEAR_ALL);
    resized();
  });
  return {
    draw(lines) {
      const { columns, rows } = output.size;
      const shown = lines.slice(0, rows).map((line) => cutTo(line, columns) + CLEAR_LINE);
      output.write(HOME + shown.join('\r\n') + CLEAR_BELOW);
    },
    close() {
      endResize();
      output.write(SHOW_CURSOR + MAIN_SCREEN);
    },
  };
}
