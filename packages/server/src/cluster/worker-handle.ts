/** A worker as the supervisor sees it. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { monotonicMs } from '../clock.ts';
import type { Config } from '../config/model.ts';
import { slicesOf } from '../config/slices.ts';
import { Child } from './child.ts';
import type { Accepted, ConnectionTarget } from './connection-balancer.ts';
import { SUSPECT_MS } from './heartbeat.ts';
import { DEADLINE_MS, type ReloadOutcome, STORE_FD, type StartOrder } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./worker-main.js', import.meta.url));

/** Time to exit after the drain timeout, before the worker is killed. */
const GRACE_MS = 2000;

const MAX_UNCONFIRMED = 16;
/** A worker gets no further connection while one is unconfirmed for longer than this. */
const MAX_CONFIRM_MS = 100;

/** Receives log lines, for example to format them for a terminal. */
export interface LogLines {
  write(line: string): void;
}

export interface WorkerHandleOptions {
  /** Number of the worker, from 1. A replacement has the number of the worker it replaces. */
  readonly slot: number;
  readonly logTo: LogLines | undefined;
  /** Whether a store process decides. */
  readonly isHosted: boolean;
  /** Called when the worker may be ready for another connection. */
  onReady(): void;
}

export class WorkerHandle extends Child implements ConnectionTarget {
  readonly slot: number;
  readonly #onReady: () => void;
  /** Connections stay open here until the worker has confirmed them. */
  readonly #handedOver = new Map<number, Accepted & { readonly atMs: number }>();
  #handedOverCount = 0;
  /** The last configuration that is being sent. The next one waits for it. */
  #sending: Promise<void> = Promise.resolve();

  constructor({ slot, logTo, isHosted, onReady }: WorkerHandleOptions) {
    const output = logTo === undefined ? 'inherit' : 'pipe';
    const store = isHosted ? (['pipe'] as const) : [];
    super(PROGRAM, isHosted ? ['store'] : [], ['ignore', output, 'inherit', 'ipc', ...store]);
    this.slot = slot;
    this.#onReady = onReady;
    if (logTo !== undefined) forwardLines(this.process, logTo);
  }

  /** The store's end of the channel that the worker was started with. */
  get storeChannel(): Duplex {
    return this.stdio(STORE_FD);
  }

  /** Passes the worker a channel to a new store process. */
  giveStore(channel: Duplex): void {
    this.pass({ kind: 'store' }, channel);
  }

  /** `config` and `order` are called when they are sent, so that the worker starts up to date. */
  async start(config: () => Config, order: () => StartOrder): Promise<void> {
    await this.#inOrder(async () => {
      await this.#sendConfig(config());
      await this.rpc.call('start', order(), DEADLINE_MS.start);
    });
    this.markServing();
  }

  /** Sends the outcome of a reload. Resolves when the worker has applied it. */
  configure(outcome: ReloadOutcome, config: Config): Promise<unknown> {
    return this.#inOrder(async () => {
      if (outcome.problems.length === 0) await this.#sendConfig(config);
      await this.rpc.call('configure', outcome, DEADLINE_MS.reload);
    });
  }

  /** Sends slices one by one: many at once would block the worker's event loop. */
  async #sendConfig(config: Config): Promise<void> {
    for (const slice of slicesOf(config)) {
      await this.rpc.call('slice', slice, DEADLINE_MS.start);
    }
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.#sending.then(work);
    this.#sending = done.catch(() => {});
    return done;
  }

  get isResponsive(): boolean {
    return this.isServing && monotonicMs() - this.lastBeatMs < SUSPECT_MS;
  }

  get isReady(): boolean {
    if (!this.isResponsive || this.unconfirmed >= MAX_UNCONFIRMED) return false;
    const [oldest] = this.#handedOver.values();
    return oldest === undefined || monotonicMs() - oldest.atMs < MAX_CONFIRM_MS;
  }

  get unconfirmed(): number {
    return this.#handedOver.size;
  }

  handOver({ listener, socket }: Accepted): void {
    const id = this.#handedOverCount++;
    this.#handedOver.set(id, { listener, socket, atMs: monotonicMs() });
    this.process.send({ kind: 'connection', listener, id }, socket, { keepOpen: true }, (error) => {
      // If the channel is closed the worker has exited, and another one gets the connection.
      if (error !== null && this.process.connected) this.#confirmed(id);
    });
  }

  protected override received(message: unknown): void {
    super.received(message);
    if (!isRecord(message)) return;
    if (message.kind === 'taken') this.#confirmed(message.id as number);
    if (message.kind === 'alive' || message.kind === 'taken') this.#onReady();
  }

  /** Closes this process's copy of the connection. */
  #confirmed(id: number): void {
    this.#handedOver.get(id)?.socket.destroy();
    this.#handedOver.delete(id);
  }

  /** Removes and returns the connections that the worker had not confirmed when it exited. */
  takeUnconfirmed(): readonly Accepted[] {
    const all = [...this.#handedOver.values()];
    this.#handedOver.clear();
    return all;
  }

  /** Has the worker complete its requests and exit. Kills it if it takes too long. */
  async stop(drainMs: number): Promise<void> {
    const isServing = this.isServing;
    this.state = 'stopping';
    if (!isServing) this.kill();
    else this.rpc.call('stop', undefined, drainMs + GRACE_MS).catch(() => {});
    const cancel = systemClock.schedule(drainMs + GRACE_MS, () => this.kill());
    await this.exited;
    cancel();
  }
}

function forwardLines({ stdout }: ChildProcess, logTo: LogLines): void {
  if (stdout === null) return;
  createInterface({ input: stdout }).on('line', (line) => {
    try {
      logTo.write(line);
    } catch {
      // Not a JSON log line, for example a warning that Node printed.
      process.stderr.write(`${line}\n`);
    }
  });
}
