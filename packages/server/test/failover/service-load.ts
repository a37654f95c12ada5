/** `sluice serve` as a process on Redis, and a client that checks keys while servers fail. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { programOf } from '../../../../tools/test-programs.ts';

const PROGRAM = programOf('sluice');
/** Most requests are never denied by a server; those of `few` mostly are. */
const CONFIG = 'policies: { many: 1000000/1h, few: 1/1h }\n';
const PATIENCE_MS = 60_000;

export const KEYS = 24;
const EVERY_MS = 4;

/** One response. Times are those of `performance.now()`. */
export interface Response {
  readonly key: number;
  readonly begunMs: number;
  readonly endedMs: number;
  readonly status: number;
  readonly isDegraded: boolean;
}

export class ServiceLoad {
  readonly responses: Response[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-serve-'));
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 32 });
  readonly #child: ChildProcess;
  #url = '';
  #isStopped = false;
  #sending: Promise<void> = Promise.resolve();
  /** What the service has logged. */
  log = '';

  private constructor(store: string, flags: readonly string[]) {
    const config = join(this.#folder, 'limits.yaml');
    writeFileSync(config, CONFIG);
    const words = ['--config', config, '--listen', '127.0.0.1:0', '--deadline', '250ms'];
    this.#child = spawn(
      process.execPath,
      [PROGRAM, 'serve', '--store', store, ...words, '--drain', '1s', ...flags],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    this.#child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.log += text;
    });
  }

  static async start(store: string, flags: readonly string[] = []): Promise<ServiceLoad> {
    const load = new ServiceLoad(store, flags);
    await until('the service listens', () => {
      [, load.#url = ''] = /"url":"([^"]+)"/.exec(load.log) ?? [];
      return load.#url !== '';
    });
    load.#sending = load.#send();
    return load;
  }

  async #send(): Promise<void> {
    for (let call = 0; !this.#isStopped; call++) {
      void this.#check(call % KEYS, call % 10 === 0 ? 'few' : 'many');
      await sleep(EVERY_MS);
    }
  }

  async #check(key: number, policy: string): Promise<void> {
    const begunMs = performance.now();
    const url = `${this.#url}/v1/check?enforce`;
    const sent = request(url, { method: 'POST', agent: this.#agent });
    sent.end(JSON.stringify({ policy, key: `key ${key}` }));
    let status = 0;
    let text = '';
    try {
      const [answer] = await once(sent, 'response');
      status = answer.statusCode;
      for await (const piece of answer) text += piece;
    } catch {
      if (this.#isStopped) return;
    }
    const isDegraded = text.includes('"degraded"');
    this.responses.push({ key, begunMs, endedMs: performance.now(), status, isDegraded });
  }

  /**
   * Resolves to the time when Redis had decided a request for every key, all begun since then.
   * Rejects after a minute.
   */
  async back(sinceMs: number): Promise<number> {
    let backMs: number | undefined;
    await until('Redis decides for every key', () => {
      backMs = this.#backMs(sinceMs);
      return backMs !== undefined;
    });
    return backMs!;
  }

  #backMs(sinceMs: number): number | undefined {
    const firsts = new Map<number, number>();
    for (const { key, begunMs, endedMs, status, isDegraded } of this.responses) {
      if (begunMs < sinceMs || isDegraded || status === 0) continue;
      firsts.set(key, Math.min(endedMs, firsts.get(key) ?? Number.POSITIVE_INFINITY));
    }
    return firsts.size === KEYS ? Math.max(...firsts.values()) : undefined;
  }

  /** Statuses of all responses, each once; 0 is a request without a response. */
  get statuses(): readonly number[] {
    return [...new Set(this.responses.map(({ status }) => status))].sort((a, b) => a - b);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#sending;
    this.#child.kill('SIGTERM');
    if (this.#child.exitCode === null) await once(this.#child, 'exit');
    this.#agent.destroy();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Resolves when `isTrue` returns true; rejects with `what` after a minute. */
export async function until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + PATIENCE_MS;
  while (!(await isTrue())) {
    if (performance.now() > deadlineMs) throw new Error(`waited ${PATIENCE_MS} ms until ${what}`);
    await sleep(5);
  }
}
