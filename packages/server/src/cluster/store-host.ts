/**
 * Keeps a store process running for the workers. A worker is started with a channel to it; a store
 * process that replaces another is started with a channel for each worker.
 */
import type { Store } from 'sluice';
import type { Logger } from '../observe/log.ts';
import { ProcessSlot } from './process-slot.ts';
import { StoreProcess, type StoreState } from './store-process.ts';
import type { WorkerHandle } from './worker-handle.ts';

export interface StoreHostOptions {
  readonly maxKeys: number;
  readonly log: Logger;
  /** The workers that there are at the moment. */
  members(): readonly WorkerHandle[];
}

export class StoreHost implements Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'> {
  readonly #options: StoreHostOptions;
  readonly #place: ProcessSlot<StoreProcess>;
  /** The workers that the process which is starting has channels for. */
  #connected: readonly WorkerHandle[] = [];
  #state: StoreState = { size: 0, evicted: 0, guaranteedKeys: undefined };

  constructor(options: StoreHostOptions) {
    this.#options = options;
    this.#place = new ProcessSlot<StoreProcess>({
      what: 'store process',
      fields: {},
      log: options.log,
      make: () => this.#make(),
      begin: (child) => this.#begin(child),
      gone: () => {},
    });
  }

  start(): Promise<void> {
    return this.#place.fill();
  }

  get pid(): number | undefined {
    return this.#place.child?.pid;
  }

  get children(): readonly StoreProcess[] {
    const { child } = this.#place;
    return child === undefined ? [] : [child];
  }

  get size(): number {
    return this.#state.size;
  }

  /** Over all store processes that there have been. */
  get evicted(): number {
    return this.#state.evicted;
  }

  get guaranteedKeys(): number | undefined {
    return this.#state.guaranteedKeys;
  }

  /** Connects a worker that is just being started. */
  serve({ slot, storeChannel }: WorkerHandle): void {
    const { child } = this.#place;
    // A store process that is started later has a channel for the worker.
    if (child === undefined) storeChannel.destroy();
    else child.serve(slot, storeChannel);
  }

  #make(): StoreProcess {
    this.#connected = this.#options.members();
    return new StoreProcess({
      channels: this.#connected.length,
      onState: (state) => {
        this.#state = state;
      },
      onViolation: (worker, err) => {
        this.#options.log.error({ err, worker }, 'invalid message from worker');
        this.#options
          .members()
          .find(({ slot }) => slot === worker)
          ?.kill();
      },
    });
  }

  async #begin(child: StoreProcess): Promise<void> {
    const connected = this.#connected;
    const { maxKeys, members } = this.#options;
    const { evicted } = this.#state;
    await child.start({ maxKeys, evicted, workers: connected.map(({ slot }) => slot) });
    for (const [at, worker] of connected.entries()) {
      if (members().includes(worker)) worker.giveStore(child.channel(at));
      else child.channel(at).destroy();
    }
  }

  /** Replaces the process no more. */
  close(): void {
    this.#place.close();
  }

  async stop(): Promise<void> {
    this.close();
    const { child } = this.#place;
    child?.kill();
    await child?.gone;
  }
}
