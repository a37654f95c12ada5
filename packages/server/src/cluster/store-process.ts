/**
 * The store process as the supervisor sees it: it holds the counters of the embedded store and
 * decides for all workers. Each worker has its own channel to it.
 */
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { isRecord } from 'sluice/engine';
import { Child } from './child.ts';
import { isHeartbeat } from './heartbeat.ts';
import { DEADLINE_MS, type StoreOrder, storeChannelFd } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./store-main.js', import.meta.url));

/** Figures of the store, as of its last heartbeat. */
export interface StoreState {
  readonly size: number;
  readonly evicted: number;
  readonly guaranteedKeys: number | undefined;
}

export interface StoreProcessOptions {
  /** Number of worker slots. The process is started with a channel for each. */
  readonly slots: number;
  onState(state: StoreState): void;
  /** Called when a worker has violated the protocol. */
  onViolation(worker: number, error: Error): void;
}

export class StoreProcess extends Child {
  readonly #options: StoreProcessOptions;

  constructor(options: StoreProcessOptions) {
    const channels = Array(options.slots).fill('pipe');
    // It logs nothing. Starting a process with an inherited pipe makes writes to that pipe block in
    // all processes that share it: a reader that stops would stop the supervisor.
    super(PROGRAM, [], ['ignore', 'ignore', 'pipe', 'ipc', ...channels]);
    this.process.stderr?.pipe(process.stderr, { end: false });
    this.#options = options;
  }

  /** Resolves when the process has loaded its modules. */
  async load(): Promise<void> {
    await this.rpc.call('load', undefined, DEADLINE_MS.start);
    this.markServing();
  }

  /** Opens the store for the workers in `order`, on the channels of their slots. */
  async open(order: StoreOrder): Promise<void> {
    await this.rpc.call('open', order, DEADLINE_MS.start);
    this.markServing();
  }

  /** The worker's end of the channel that the process was started with. */
  channel(slot: number): Duplex {
    return this.stdio(storeChannelFd(slot));
  }

  /** Passes the store's end of a channel to a worker. */
  serve(worker: number, channel: Duplex): void {
    this.pass({ kind: 'channel', worker }, channel);
  }

  protected override received(message: unknown): void {
    super.received(message);
    if (isHeartbeat(message)) {
      const { size, evicted, guaranteedKeys } = message as unknown as StoreState;
      if (size !== undefined) this.#options.onState({ size, evicted, guaranteedKeys });
    } else if (isRecord(message) && message.kind === 'violation') {
      const error = new Error(String(message.message));
      this.#options.onViolation(message.worker as number, error);
    }
  }
}
