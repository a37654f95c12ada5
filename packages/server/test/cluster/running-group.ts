/** A service with several workers, for tests. The supervisor is a separate process. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programOf } from '../../../../tools/test-programs.ts';
import type { Config } from '../../src/config/model.ts';
import type { ReloadReport } from '../../src/configuration.ts';
import type { Listen, SettingName } from '../../src/settings.ts';
import { configOf } from '../running.ts';

const PROGRAM = programOf('supervisor-process');

export interface GroupOptions {
  readonly config: Partial<Config>;
  /** Settings in the form of flags. */
  readonly settings?: Partial<Record<SettingName, unknown>>;
  /** Module in this folder that all processes load first. */
  readonly preload?: string;
}

/** The deadline is long because on a busy machine a fallback would decide. */
const DEFAULTS = { listen: '127.0.0.1:0', workers: 2, drainMs: '1s', deadlineMs: '10s' };

interface Ready {
  readonly url: string;
  readonly http: Listen;
  readonly grpc?: Listen;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
}

export class RunningGroup {
  readonly ended: Promise<Ended>;
  /** Parsed lines of the log. */
  readonly log: Record<string, unknown>[] = [];
  #ready!: Ready;
  #queries = 0;

  private constructor(
    readonly supervisor: ChildProcess,
    private readonly folder: string,
  ) {
    this.ended = once(supervisor, 'exit').then(([code, signal]) => ({ code, signal }));
    let rest = '';
    supervisor.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      const lines = (rest + piece).split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.log.push(line.startsWith('{') ? JSON.parse(line) : { line });
    });
  }

  static async start({ config, settings = {}, preload }: GroupOptions): Promise<RunningGroup> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-group-'));
    const file = join(folder, 'config.json');
    writeFileSync(file, JSON.stringify(configOf(config)));
    const flags = JSON.stringify({ ...DEFAULTS, ...settings });
    const hook = preload === undefined ? '' : `--import ${new URL(preload, import.meta.url)}`;
    const supervisor = fork(PROGRAM, [flags, file], {
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: hook },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const group = new RunningGroup(supervisor, folder);
    const [message] = await Promise.race([once(supervisor, 'message'), once(supervisor, 'exit')]);
    if (message?.ready) {
      group.#ready = message.ready;
      return group;
    }
    await group.stop();
    const { failed = { message: 'The supervisor did not start. Run the build first.' } } =
      message ?? {};
    throw Object.assign(new Error(failed.message), { code: failed.code });
  }

  get url(): string {
    return this.#ready.url;
  }

  get port(): number {
    return this.#ready.http.port;
  }

  get grpc(): Listen | undefined {
    return this.#ready.grpc;
  }

  pids(): Promise<readonly number[]> {
    return this.#query('pids') as Promise<readonly number[]>;
  }

  storePid(): Promise<number> {
    return this.#query('storePid') as Promise<number>;
  }

  /** Writes the configuration and reloads it. */
  reload(config: Partial<Config> | string): Promise<ReloadReport> {
    this.write(config);
    return this.#query('reload') as Promise<ReloadReport>;
  }

  /** Replaces the configuration file atomically. */
  write(config: Partial<Config> | string): void {
    const text = typeof config === 'string' ? config : JSON.stringify(configOf(config));
    const file = join(this.folder, 'config.json');
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  #query(query: string): Promise<unknown> {
    const id = this.#queries++;
    return new Promise((resolve) => {
      const receive = (message: { id?: number; result?: unknown }): void => {
        if (message.id !== id) return;
        this.supervisor.off('message', receive);
        resolve(message.result);
      };
      this.supervisor.on('message', receive);
      this.supervisor.send({ id, query });
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.supervisor.kill(signal);
  }

  /** Stops the supervisor, unless it has exited. */
  async stop(): Promise<Ended> {
    const { supervisor } = this;
    if (supervisor.exitCode === null && supervisor.signalCode === null) supervisor.kill('SIGTERM');
    const ended = await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
    return ended;
  }
}

/** Whether a process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
