/**
 * Runs in the supervisor: represents one store process. The store process holds the counters of the
 * embedded store and decides for all workers; each worker has a channel to it. The supervisor opens
 * the store, connects new workers and receives heartbeats. `Child` describes what happens if the
 * process hangs or exits.
 */
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { isRecord } from 'sluice/engine';
import { Child } from './child.ts';
import { isHeartbeat } from './heartbeat.ts';
import { CALL_TIMEOUT_MS, type StoreParameters, storeChannelFd } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./store-main.js', import.meta.url));

/** Sizes of the store, from the last heartbeat of its process. */
export interface StoreState {
  readonly size: number;
  readonly evicted: number;
  readonly guaranteedKeys: number | undefined;
}

export interface StoreProcessOptions {
  /** Number of workers. The process is started with a channel for each. */
  readonly slots: number;
  /** Called with each heartbeat. */
  onState(state: StoreState): void;
  /** Called when a worker has sent an invalid line. */
  onViolation(worker: number, error: Error): void;
}

export class StoreProcess extends Child {
  readonly #options: StoreProcessOptions;

  constructor(options: StoreProcessOptions) {
    const channels = Array(options.slots).fill('pipe');
    // The process logs nothing, so its standard output is ignored. If the process inherited the
    // supervisor's output and that were a pipe, Node would make the pipe blocking for the
    // supervisor too. The supervisor would then hang if the reader of the pipe stopped reading.
    super(PROGRAM, [], ['ignore', 'ignore', 'pipe', 'ipc', ...channels]);
    this.process.stderr?.pipe(process.stderr, { end: false });
    this.#options = options;
  }

  /** Resolves when the process has loaded its modules. */
  async load(): Promise<void> {
    await this.rpc.call('load', undefined, CALL_TIMEOUT_MS.start);
    this.markServing();
  }

  /** Resolves when the process has created the store and serves the workers in `parameters`. */
  async open(parameters: StoreParameters): Promise<void> {
    await this.rpc.call('open', parameters, CALL_TIMEOUT_MS.start);
    this.markServing();
  }

  /**
   * Returns the worker's end of the channel that was created for this slot when the process
   * started.
   */
  channel(slot: number): Duplex {
    return this.stdio(storeChannelFd(slot));
  }

  /** Sends the process its end of a channel to a worker. */
  connectWorker(worker: number, channel: Duplex): void {
    this.pass({ kind: 'channel', worker }, channel);
  }

  protected override onMessage(message: unknown): void {
    super.onMessage(message);
    if (isHeartbeat(message)) {
      const { size, evicted, guaranteedKeys } = message as unknown as StoreState;
      if (size !== undefined) this.#options.onState({ size, evicted, guaranteedKeys });
    } else if (isRecord(message) && message.kind === 'violation') {
      const error = new Error(String(message.message));
      this.#options.onViolation(message.worker as number, error);
    }
  }
}
