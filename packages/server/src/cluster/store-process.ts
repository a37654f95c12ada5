/**
 * The store process as the supervisor sees it: it holds the counters of the embedded store, decides
 * for all workers and does nothing else. Each worker has a channel of its own to it.
 */
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { isRecord } from 'sluice/engine';
import { Child } from './child.ts';
import { isHeartbeat } from './heartbeat.ts';
import { DEADLINE_MS, STORE_FD, type StoreOrder } from './messages.ts';

const PROGRAM = fileURLToPath(new URL('./store-main.js', import.meta.url));

/** What the store says of itself, as of its last heartbeat. */
export interface StoreState {
  readonly size: number;
  readonly evicted: number;
  readonly guaranteedKeys: number | undefined;
}

export interface StoreProcessOptions {
  /** How many channels it starts with, for the workers that are there already. */
  readonly channels: number;
  onState(state: StoreState): void;
  /** Called when a worker sent what is not of the protocol. */
  onViolation(worker: number, error: Error): void;
}

export class StoreProcess extends Child {
  readonly #options: StoreProcessOptions;

  constructor(options: StoreProcessOptions) {
    const channels = Array(options.channels).fill('pipe');
    super(PROGRAM, [], ['ignore', 'inherit', 'inherit', 'ipc', ...channels]);
    this.#options = options;
  }

  async start(order: StoreOrder): Promise<void> {
    await this.rpc.ask('open', order, DEADLINE_MS.start);
    if (this.state === 'starting') this.state = 'serving';
    this.excuse();
  }

  /** The worker's end of a channel that the process was started with. */
  channel(at: number): Duplex {
    return this.stdio(STORE_FD + at);
  }

  /** Has the process answer what comes on the channel of a worker. */
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
