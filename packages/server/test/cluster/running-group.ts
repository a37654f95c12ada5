/** Services of several processes, for tests: the supervisor is a process of its own. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config/model.ts';
import type { ReloadReport } from '../../src/configuration.ts';
import type { Listen, SettingName } from '../../src/settings.ts';
import { configOf } from '../running.ts';

const PROGRAM = new URL('supervisor-process.mjs', import.meta.url);

export interface GroupOptions {
  readonly config: Partial<Config>;
  /** As flags. */
  readonly settings?: Partial<Record<SettingName, unknown>>;
  /** Module in this folder that all processes load first. */
  readonly preload?: string;
}

/** The store process may be late on a busy machine, and then a fallback would decide. */
const DEFAULTS = { listen: '127.0.0.1:0', workers: 2, drainMs: '2s', deadlineMs: '10s' };

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
  /** What was logged, line by line. */
  readonly log: Record<string, unknown>[] = [];
  #ready!: Ready;
  #asked = 0;

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
    const folder = mkdtempSync(join(tmpdir(), 'sluice-crew-'));
    const file = join(folder, 'config.json');
    writeFileSync(file, JSON.stringify(configOf(config)));
    const flags = JSON.stringify({ ...DEFAULTS, ...settings });
    const hook = preload === undefined ? '' : `--import ${new URL(preload, import.meta.url)}`;
    const supervisor = fork(PROGRAM, [flags, file], {
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: hook },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const crewed = new RunningGroup(supervisor, folder);
    const [message] = await Promise.race([once(supervisor, 'message'), once(supervisor, 'exit')]);
    if (message?.ready) {
      crewed.#ready = message.ready;
      return crewed;
    }
    await crewed.stop();
    const { failed = { message: 'the supervisor did not start: was it built?' } } = message ?? {};
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
    return this.#ask('pids') as Promise<readonly number[]>;
  }

  storePid(): Promise<number> {
    return this.#ask('storePid') as Promise<number>;
  }

  /** Writes the configuration, in one step, and has it read again. */
  reload(config: Partial<Config> | string): Promise<ReloadReport> {
    this.write(config);
    return this.#ask('reload') as Promise<ReloadReport>;
  }

  write(config: Partial<Config> | string): void {
    const text = typeof config === 'string' ? config : JSON.stringify(configOf(config));
    const file = join(this.folder, 'config.json');
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  #ask(ask: string): Promise<unknown> {
    const id = this.#asked++;
    return new Promise((resolve) => {
      const hear = (message: { id?: number; answer?: unknown }): void => {
        if (message.id !== id) return;
        this.supervisor.off('message', hear);
        resolve(message.answer);
      };
      this.supervisor.on('message', hear);
      this.supervisor.send({ id, ask });
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.supervisor.kill(signal);
  }

  /** Ends it, if it has not ended by itself. */
  async stop(): Promise<Ended> {
    const { supervisor } = this;
    if (supervisor.exitCode === null && supervisor.signalCode === null) supervisor.kill('SIGTERM');
    const ended = await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
    return ended;
  }
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
