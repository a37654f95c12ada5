/**
 * A terminal emulator with the control sequences that the command line uses, and an alternate
 * screen. Throws on any other control sequence.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { binary, endWithTest, ownVariables, Process, root } from './running.ts';

// biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with one.
const SEQUENCE = /^\u001b\[(\??[\d;]*)([A-Za-z])/;

class Screen {
  rows: string[][] = [];
  row = 0;
  column = 0;
}

export class Terminal {
  readonly #own = new Screen();
  #shown = this.#own;
  isCursorHidden = false;
  isOtherScreen = false;
  /** Parameters of the colour sequences that were written. */
  readonly styles = new Set<string>();
  /** Number of lines that were too long for the screen. */
  wrapped = 0;

  constructor(
    public columns: number,
    public height: number,
  ) {}

  /** The lines on the screen. */
  get lines(): string[] {
    const { rows } = this.#shown;
    return Array.from(rows, (cells) =>
      Array.from(cells ?? [], (cell) => cell ?? ' ')
        .join('')
        .trimEnd(),
    );
  }

  write(text: string): void {
    let rest = text;
    while (rest !== '') {
      const found = SEQUENCE.exec(rest);
      if (found !== null) {
        this.#apply(found[1], found[2]);
        rest = rest.slice(found[0].length);
        continue;
      }
      const [letter] = rest;
      this.#type(letter);
      rest = rest.slice(letter.length);
    }
  }

  #type(letter: string): void {
    const screen = this.#shown;
    if (letter === '\r') screen.column = 0;
    else if (letter === '\n') {
      screen.row++;
      // The top line scrolls off the screen.
      if (screen.row >= this.height) {
        screen.rows.shift();
        screen.row = this.height - 1;
      }
    } else if (letter < ' ')
      throw new Error(`Expected no control character, got ${escape(letter)}`);
    else {
      if (screen.column >= this.columns) {
        this.wrapped++;
        this.#type('\r');
        this.#type('\n');
      }
      screen.rows[screen.row] ??= [];
      screen.rows[screen.row][screen.column++] = letter;
    }
  }

  #apply(given: string, command: string): void {
    const screen = this.#shown;
    const name = given + command;
    if (command === 'm') this.styles.add(given);
    else if (command === 'A') screen.row = Math.max(0, screen.row - Number(given || 1));
    else if (name === 'H') screen.row = screen.column = 0;
    else if (name === 'K') screen.rows[screen.row]?.splice(screen.column);
    else if (name === 'J') {
      screen.rows[screen.row]?.splice(screen.column);
      screen.rows.splice(screen.row + 1);
    } else if (name === '2J') screen.rows = [];
    else if (name === '?25l') this.isCursorHidden = true;
    else if (name === '?25h') this.isCursorHidden = false;
    else if (name === '?1049h') {
      this.isOtherScreen = true;
      this.#shown = new Screen();
    } else if (name === '?1049l') {
      this.isOtherScreen = false;
      this.#shown = this.#own;
    } else throw new Error(`Expected a known sequence, got ${name}`);
  }
}

export interface OnTerminal {
  readonly terminal: Terminal;
  readonly code: Promise<number | null>;
  /** Sends key presses: `q`, or `\u0003` for Ctrl-C. */
  type(text: string): void;
  /** Changes the size of the terminal. */
  resize(columns: number, height: number): Promise<void>;
  /** Resolves to the text of the screen when it matches. */
  shows(pattern: RegExp): Promise<string>;
}

/** Runs `sluice` on a terminal of this size, which shows both output streams. */
export function onTerminalOf(
  columns: number,
  height: number,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): OnTerminal {
  const command = [process.execPath, binary, ...args].map((arg) => `'${arg}'`).join(' ');
  const named = join(mkdtempSync(join(tmpdir(), 'sluice-terminal-')), 'tty');
  const all = `tty > ${named}; stty cols ${columns} rows ${height}; exec ${command}`;
  // CI would disable the display on a terminal.
  const plain = { TERM: 'xterm-256color', CI: '', ...variables };
  const env = { ...ownVariables(), ...plain };
  const child = spawn('script', ['-qfec', all, '/dev/null'], { cwd: root, env });
  // The terminal closes with `script`, which ends the command too.
  endWithTest(child);
  const terminal = new Terminal(columns, height);
  let unread = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    unread += text;
    // A sequence may arrive in two parts.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: sequences begin with one.
    const end = /\u001b[^A-Za-z]*$/.exec(unread)?.index ?? unread.length;
    terminal.write(unread.slice(0, end));
    unread = unread.slice(end);
  });
  let isOver = false;
  const code = new Promise<number | null>((resolve) => {
    child.once('close', (status) => {
      isOver = true;
      rmSync(dirname(named), { recursive: true, force: true });
      resolve(status);
    });
  });
  const shows = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const text = terminal.lines.join('\n');
      if (pattern.test(text)) return text;
      if (isOver) throw new Error(`The command exited and showed ${text}`);
      await sleep(20);
    }
  };
  const resize = async (newColumns: number, newHeight: number): Promise<void> => {
    const device = readFileSync(named, 'utf8').trim();
    terminal.columns = newColumns;
    terminal.height = newHeight;
    const size = ['cols', String(newColumns), 'rows', String(newHeight)];
    await new Process('stty', ['-F', device, ...size], {}).ended;
  };
  return { terminal, code, type: (text) => child.stdin.write(text), resize, shows };
}
