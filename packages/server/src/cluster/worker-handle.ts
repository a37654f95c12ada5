/**
 * Runs in the supervisor: represents one worker. The supervisor sends the configuration, changes
 * and connections to the worker. The worker confirms each of them. A connection stays open in the
 * supervisor until the worker confirms it. If the worker exits before that, another worker can
 * serve the connection. `Child` describes what happens if the worker hangs.
 */
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
import type { AcceptedConnection, ConnectionTarget } from './connection-balancer.ts';
import { SUSPECT_MS } from './heartbeat.ts';
import { CALL_TIMEOUT_MS, type ReloadOutcome, STORE_FD, type StartParameters } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./worker-main.js', import.meta.url));

/** A worker that has not exited this long after the drain timeout is killed. */
const GRACE_MS = 2000;

/** A worker with this many unconfirmed connections gets no further connections. */
const MAX_UNCONFIRMED = 16;
/** If a connection stays unconfirmed for this long, its worker gets no further connections. */
const MAX_CONFIRM_MS = 100;

/** Receives log lines, for example to format them for a terminal. */
export interface LogLineWriter {
  write(line: string): void;
}

export interface WorkerHandleOptions {
  /** Number of the worker, from 1. Its replacement gets the same number. */
  readonly slot: number;
  readonly logTo: LogLineWriter | undefined;
  /** Whether the service has a store process. With Redis, it has none. */
  readonly hasStoreProcess: boolean;
  /** Called when the worker may be ready for another connection. */
  onReady(): void;
}

export class WorkerHandle extends Child implements ConnectionTarget {
  readonly slot: number;
  readonly #onReady: () => void;
  /** Unconfirmed connections by id, the oldest first. */
  readonly #handedOver = new Map<number, AcceptedConnection & { readonly atMs: number }>();
  /** Id of the next connection. */
  #nextId = 0;
  /** Settles when the last configuration has been sent. The next one waits for it. */
  #sending: Promise<void> = Promise.resolve();

  constructor({ slot, logTo, hasStoreProcess, onReady }: WorkerHandleOptions) {
    const output = logTo === undefined ? 'inherit' : 'pipe';
    const store = hasStoreProcess ? (['pipe'] as const) : [];
    super(PROGRAM, hasStoreProcess ? ['store'] : [], [
      'ignore',
      output,
      'inherit',
      'ipc',
      ...store,
    ]);
    this.slot = slot;
    this.#onReady = onReady;
    if (logTo !== undefined) forwardLines(this.process, logTo);
  }

  /** The store process's end of the channel that was created when the worker started. */
  get storeChannel(): Duplex {
    return this.stdio(STORE_FD);
  }

  /** Sends the worker its end of a channel to a new store process. */
  connectStore(channel: Duplex): void {
    this.pass({ kind: 'store' }, channel);
  }

  /**
   * Resolves when the worker serves. `config` and `parameters` are called right before their
   * results are sent, so the worker starts with the current state.
   */
  async start(config: () => Config, parameters: () => StartParameters): Promise<void> {
    await this.#inOrder(async () => {
      await this.#sendConfig(config());
      await this.rpc.call('start', parameters(), CALL_TIMEOUT_MS.start);
    });
    this.markServing();
  }

  /** Sends the outcome of a reload. Resolves when the worker has applied it. */
  configure(outcome: ReloadOutcome, config: Config): Promise<unknown> {
    return this.#inOrder(async () => {
      if (outcome.problems.length === 0) await this.#sendConfig(config);
      await this.rpc.call('configure', outcome, CALL_TIMEOUT_MS.reload);
    });
  }

  /** Sends slices one by one, because many at once would block the worker's event loop. */
  async #sendConfig(config: Config): Promise<void> {
    for (const slice of slicesOf(config)) {
      await this.rpc.call('slice', slice, CALL_TIMEOUT_MS.start);
    }
  }

  /** Runs `work` when the work of all earlier calls is complete. */
  #inOrder(work: () => Promise<void>): Promise<void> {
    const done = this.#sending.then(work);
    this.#sending = done.catch(() => {});
    return done;
  }

  /** Whether the worker serves and has sent a heartbeat within `SUSPECT_MS`. */
  get isResponsive(): boolean {
    return this.isServing && monotonicMs() - this.lastBeatMs < SUSPECT_MS;
  }

  /** Whether the worker can be handed another connection. */
  get isReady(): boolean {
    if (!this.isResponsive || this.unconfirmed >= MAX_UNCONFIRMED) return false;
    const [oldest] = this.#handedOver.values();
    return oldest === undefined || monotonicMs() - oldest.atMs < MAX_CONFIRM_MS;
  }

  get unconfirmed(): number {
    return this.#handedOver.size;
  }

  handOver({ listener, socket }: AcceptedConnection): void {
    const id = this.#nextId++;
    this.#handedOver.set(id, { listener, socket, atMs: monotonicMs() });
    this.process.send({ kind: 'connection', listener, id }, socket, { keepOpen: true }, (error) => {
      // Close a connection that could not be sent. If the IPC channel is closed, the worker has
      // exited, and `takeUnconfirmed` returns the connection for another worker.
      if (error !== null && this.process.connected) this.#confirm(id);
    });
  }

  protected override onMessage(message: unknown): void {
    super.onMessage(message);
    if (!isRecord(message)) return;
    if (message.kind === 'received') this.#confirm(message.id as number);
    if (message.kind === 'alive' || message.kind === 'received') this.#onReady();
  }

  /** Closes the supervisor's copy of a connection. */
  #confirm(id: number): void {
    this.#handedOver.get(id)?.socket.destroy();
    this.#handedOver.delete(id);
  }

  /** Removes and returns the connections that the worker had not confirmed when it exited. */
  takeUnconfirmed(): readonly AcceptedConnection[] {
    const all = [...this.#handedOver.values()];
    this.#handedOver.clear();
    return all;
  }

  /**
   * Stops the worker. Resolves when the worker has completed its requests and exited. Kills the
   * worker after a timeout.
   */
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

/** Passes each line that the worker prints to `logTo`. */
function forwardLines({ stdout }: ChildProcess, logTo: LogLineWriter): void {
  if (stdout === null) return;
  createInterface({ input: stdout }).on('line', (line) => {
    try {
      logTo.write(line);
    } catch {
      // `logTo` throws for a line that is not JSON, for example a warning of Node.
      process.stderr.write(`${line}\n`);
    }
  });
}
