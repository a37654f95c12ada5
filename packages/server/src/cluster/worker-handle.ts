/** One worker, as the supervisor sees it. */
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { monotonicMs } from '../clock.ts';
import type { Config } from '../config/model.ts';
import { slicesOf } from '../config/slices.ts';
import type { ListenerName } from '../http/connection-source.ts';
import { Child } from './child.ts';
import type { Accepted, Host } from './connection-balancer.ts';
import { SUSPECT_MS } from './heartbeat.ts';
import { DEADLINE_MS, type ReloadOutcome, STORE_FD, type StartOrder } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./worker-main.js', import.meta.url));

/** How much longer than it may drain a worker may take to go. */
const GRACE_MS = 2000;

/** How many connections may be on their way to a worker. */
const MAX_HANDED_OVER = 16;

/** Takes the lines of a log, such as to show them to people. */
export interface LogLines {
  write(line: string): void;
}

export interface WorkerHandleOptions {
  /** Counts from 1. A worker that replaces another has the same. */
  readonly slot: number;
  readonly logTo: LogLines | undefined;
  /** Whether a store process decides. */
  readonly isHosted: boolean;
  /** Called when it can take another connection. */
  onReady(): void;
}

export class WorkerHandle extends Child implements Host {
  readonly slot: number;
  readonly #onReady: () => void;
  /** Connections on their way to it. They stay open here until the worker has them. */
  readonly #handedOver = new Map<number, Accepted>();
  #handedOverCount = 0;
  /** Configurations are sent one after the other. */
  #sending: Promise<void> = Promise.resolve();

  constructor({ slot, logTo, isHosted, onReady }: WorkerHandleOptions) {
    const output = logTo === undefined ? 'inherit' : 'pipe';
    const store = isHosted ? (['pipe'] as const) : [];
    super(PROGRAM, isHosted ? ['store'] : [], ['ignore', output, 'inherit', 'ipc', ...store]);
    this.slot = slot;
    this.#onReady = onReady;
    if (logTo !== undefined) passLines(this.process, logTo);
  }

  /** The other end of the worker's first channel to the store process. */
  get storeChannel(): Duplex {
    return this.stdio(STORE_FD);
  }

  /** Gives the worker a channel to the store process that decides from now on. */
  giveStore(channel: Duplex): void {
    this.pass({ kind: 'store' }, channel);
  }

  /** Has it serve. What it starts with is read when it is sent, so that it is what counts then. */
  async start(config: () => Config, order: () => StartOrder): Promise<void> {
    await this.#inOrder(async () => {
      await this.#sendConfig(config());
      await this.rpc.ask('start', order(), DEADLINE_MS.start);
    });
    if (this.state === 'starting') this.state = 'serving';
    this.excuse();
  }

  /** Has it take over the outcome of a reload. */
  configure(outcome: ReloadOutcome, config: Config): Promise<unknown> {
    return this.#inOrder(async () => {
      if (outcome.problems.length === 0) await this.#sendConfig(config);
      await this.rpc.ask('configure', outcome, DEADLINE_MS.reload);
    });
  }

  /** Each slice is confirmed before the next one is sent: many at once would hold the worker up. */
  async #sendConfig(config: Config): Promise<void> {
    for (const slice of slicesOf(config)) {
      await this.rpc.ask('slice', slice, DEADLINE_MS.start);
    }
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.#sending.then(work);
    this.#sending = done.catch(() => {});
    return done;
  }

  /** Whether it can be waited for. */
  get isResponsive(): boolean {
    return this.isServing && monotonicMs() - this.heardMs < SUSPECT_MS;
  }

  get isReady(): boolean {
    return this.isResponsive && this.#handedOver.size < MAX_HANDED_OVER;
  }

  take(door: ListenerName, socket: Socket): void {
    const id = this.#handedOverCount++;
    this.#handedOver.set(id, { door, socket });
    this.process.send({ kind: 'connection', door, id }, socket, { keepOpen: true }, (error) => {
      // Without a channel the worker is gone, and another one gets the connection.
      if (error !== null && this.process.connected) this.#taken(id);
    });
  }

  protected override received(message: unknown): void {
    super.received(message);
    if (!isRecord(message)) return;
    if (message.kind === 'taken') this.#taken(message.id as number);
    if (message.kind === 'alive' || message.kind === 'taken') this.#onReady();
  }

  /** The worker has the connection, so this process lets go of it. */
  #taken(id: number): void {
    this.#handedOver.get(id)?.socket.destroy();
    this.#handedOver.delete(id);
  }

  /** The connections that it did not take before it was gone. */
  takeBack(): readonly Accepted[] {
    const all = [...this.#handedOver.values()];
    this.#handedOver.clear();
    return all;
  }

  /** Has it answer what is in flight and go; whatever happens, it is gone in the end. */
  async leave(drainMs: number): Promise<void> {
    const isServing = this.isServing;
    this.state = 'leaving';
    if (!isServing) this.kill();
    else this.rpc.ask('leave', undefined, drainMs + GRACE_MS).catch(() => {});
    const cancel = systemClock.schedule(drainMs + GRACE_MS, () => this.kill());
    await this.gone;
    cancel();
  }
}

function passLines({ stdout }: ChildProcess, logTo: LogLines): void {
  if (stdout === null) return;
  createInterface({ input: stdout }).on('line', (line) => {
    try {
      logTo.write(line);
    } catch {
      // Not a line of the log: somebody printed it.
      process.stderr.write(`${line}\n`);
    }
  });
}
