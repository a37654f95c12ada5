/** The tool as people run it: a process, what it prints, and how it ends. Needs a build. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll } from 'vitest';
import { Output } from '../src/output.ts';
import { runProgram } from '../src/program.ts';

export const root = new URL('../../../', import.meta.url).pathname;
export const binary = join(root, 'packages/cli/bin/sluice.mjs');

type Variables = Readonly<Record<string, string>>;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Nothing of what this machine says about colours, or about services, is the tests' business. */
export const ownVariables = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(?:SLUICE_|NO_COLOR|FORCE_COLOR)/.test(name)),
  );

export class Process {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';

  constructor(command: string, words: readonly string[], variables: Variables, cwd = root) {
    const env = { ...ownVariables(), ...variables };
    this.child = spawn(command, words, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code) =>
        resolve({ code, stdout: this.stdout, stderr: this.stderr }),
      );
    });
  }

  /** What a pattern finds in what has been printed, once it does. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    let isOver = false;
    this.ended.finally(() => {
      isOver = true;
    });
    for (;;) {
      const found = pattern.exec(this.stdout);
      if (found !== null) return found;
      if (isOver) throw new Error(`It ended and printed ${this.stdout}\n${this.stderr}`);
      await sleep(10);
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Runs a command in a process of its own. Tests of signals, pipes and `serve` need one. */
export const sluice = (words: readonly string[], variables: Variables = {}): Promise<Ended> =>
  new Process(process.execPath, [binary, ...words], variables).ended;

/** Runs a command in this process, on the sources: a process takes 300 ms of CPU to start. */
export async function runSluice(
  words: readonly string[],
  variables: Variables = {},
): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const streamTo = (name: 'stdout' | 'stderr'): Writable =>
    new Writable({
      decodeStrings: false,
      write(text, _, done) {
        written[name] += text;
        done();
      },
    });
  const environment = { ...ownVariables(), ...variables };
  const output = new Output(streamTo('stdout'), streamTo('stderr'), environment);
  const code = await runProgram(words, output, environment);
  return { code, ...written };
}

/** The same on a terminal: both streams are one there. */
export function onTerminal(words: readonly string[], variables: Variables = {}): Process {
  const command = [process.execPath, binary, ...words].map((word) => `'${word}'`).join(' ');
  return new Process('script', ['-qfec', command, '/dev/null'], variables);
}

export interface Serving extends Process {
  readonly url: string;
}

/** `sluice serve` on a free port, once it listens. */
export async function serving(
  words: readonly string[] = [],
  variables: Variables = {},
): Promise<Serving> {
  const all = [binary, 'serve', '--listen', '127.0.0.1:0', ...words];
  const running = new Process(process.execPath, all, variables);
  const [, url] = await running.printed(/"url":"([^"]+)"/);
  return Object.assign(running, { url });
}

/** A folder for the files of a test file, which goes when its tests are over. */
export function scratch(): (name: string, text: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (name, text) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
}

/** Colours, cursors, bells: whatever is not text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for.
export const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;
