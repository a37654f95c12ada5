/** Runs the command line in processes and collects output and exit codes. Needs a build. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, onTestFinished, TestRunner } from 'vitest';
import { programOf } from '../../../tools/test-programs.ts';
import { Output } from '../src/output.ts';
import { runProgram } from '../src/program.ts';

export const root = new URL('../../../', import.meta.url).pathname;
export const binary = programOf('sluice');

type Variables = Readonly<Record<string, string>>;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment without variables that set colours or the service. */
export const ownVariables = (): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(?:SLUICE_|NO_COLOR|FORCE_COLOR)/.test(name)),
  );

/** Kills a process at the end of the test that started it, also if the test fails. */
export function endWithTest(child: ChildProcess): void {
  // Hooks stop what they start.
  if (TestRunner.getCurrentTest() !== undefined) onTestFinished(() => void child.kill('SIGKILL'));
}

export class Process {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';

  constructor(command: string, args: readonly string[], variables: Variables, cwd = root) {
    const env = { ...ownVariables(), ...variables };
    this.child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    endWithTest(this.child);
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

  /** Resolves to the first match of a pattern in standard output. */
  async printed(pattern: RegExp): Promise<RegExpExecArray> {
    let isOver = false;
    this.ended.finally(() => {
      isOver = true;
    });
    for (;;) {
      const found = pattern.exec(this.stdout);
      if (found !== null) return found;
      if (isOver) throw new Error(`The process exited and printed ${this.stdout}\n${this.stderr}`);
      await sleep(10);
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Runs a command in a separate process, for tests of signals, pipes and `serve`. */
export const sluice = (args: readonly string[], variables: Variables = {}): Promise<Ended> =>
  new Process(process.execPath, [binary, ...args], variables).ended;

/** Runs a command in this process, since a process takes 300 ms of CPU time to start. */
export async function runSluice(
  args: readonly string[],
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
  const code = await runProgram(args, output, environment);
  return { code, ...written };
}

/** Runs a command on a terminal, which shows both output streams. */
export function onTerminal(args: readonly string[], variables: Variables = {}): Process {
  const command = [process.execPath, binary, ...args].map((arg) => `'${arg}'`).join(' ');
  return new Process('script', ['-qfec', command, '/dev/null'], variables);
}

export interface Serving extends Process {
  readonly url: string;
}

/**
 * Starts `sluice serve` on a free port and waits until it listens. The drain is short because a
 * stop waits for half of it while `fetch` keeps a connection open.
 */
export async function serving(
  args: readonly string[] = [],
  variables: Variables = {},
): Promise<Serving> {
  const all = [binary, 'serve', '--listen', '127.0.0.1:0', '--drain', '1s', ...args];
  const running = new Process(process.execPath, all, variables);
  const [, url] = await running.printed(/"url":"([^"]+)"/);
  return Object.assign(running, { url });
}

/** Creates a temporary folder for a test file. The result writes a file and returns its path. */
export function scratch(): (name: string, text: string) => string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return (name, text) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
}

/** Writes the command `sluice` into a folder and returns variables with which a shell finds it. */
export function commandIn(folder: string): { PATH: string } {
  const path = join(folder, 'bin');
  mkdirSync(path);
  const script = `#!/bin/sh\nexec '${process.execPath}' '${binary}' "$@"\n`;
  writeFileSync(join(path, 'sluice'), script, { mode: 0o755 });
  return { PATH: `${path}:${process.env.PATH}` };
}

/** Control characters other than a line feed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for.
export const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;
