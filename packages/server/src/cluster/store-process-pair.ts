/**
 * Runs in the supervisor: keeps one active store process running for all workers, and a standby
 * that has loaded its modules. If the active process exits or is killed because it hangs, the
 * standby becomes active with an empty store, and each worker is sent a channel to it. The standby
 * avoids the start of a Node process, which takes 0.3 s, or seconds on an overloaded machine.
 */
import type { Store } from 'sluice';
import type { Logger } from '../observe/log.ts';
import { ProcessSlot } from './process-slot.ts';
import { StoreProcess, type StoreState } from './store-process.ts';
import type { WorkerHandle } from './worker-handle.ts';

/** Pause before a new standby is started, so that it does not slow down the recovery. */
const STANDBY_PAUSE_MS = 1000;

export interface StoreProcessPairOptions {
  readonly maxKeys: number;
  /** Number of workers, which is also the highest slot. */
  readonly slots: number;
  readonly log: Logger;
  /** Returns the running workers. */
  workers(): readonly WorkerHandle[];
}

export class StoreProcessPair implements Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'> {
  readonly #options: StoreProcessPairOptions;
  readonly #active: ProcessSlot<StoreProcess>;
  readonly #standby: ProcessSlot<StoreProcess>;
  /** Workers that ran when the active process was created. `connect` connects later workers. */
  #initialWorkers: readonly WorkerHandle[] = [];
  #state: StoreState = { size: 0, evicted: 0, guaranteedKeys: undefined };

  constructor(options: StoreProcessPairOptions) {
    this.#options = options;
    const common = { fields: {}, log: options.log, onExit: () => {} };
    this.#active = new ProcessSlot<StoreProcess>({
      ...common,
      name: 'store process',
      create: () => {
        this.#initialWorkers = options.workers();
        return this.#standby.take() ?? this.#create();
      },
      start: (child) => this.#open(child),
    });
    this.#standby = new ProcessSlot<StoreProcess>({
      ...common,
      name: 'standby store process',
      create: () => this.#create(),
      start: (child) => child.load(),
    });
  }

  start(): Promise<void> {
    return this.#active.fill();
  }

  get pid(): number | undefined {
    return this.#active.child?.pid;
  }

  get children(): readonly StoreProcess[] {
    return [this.#active, this.#standby].flatMap(({ child }) => child ?? []);
  }

  get size(): number {
    return this.#state.size;
  }

  /** Number of keys evicted by all store processes since the start of the service. */
  get evicted(): number {
    return this.#state.evicted;
  }

  get guaranteedKeys(): number | undefined {
    return this.#state.guaranteedKeys;
  }

  /** Gives a worker that is being started a channel to the active store process. */
  connect({ slot, storeChannel }: WorkerHandle): void {
    const { child } = this.#active;
    // If there is no active process, the next one is created with a channel to each worker.
    if (child === undefined) storeChannel.destroy();
    else child.connectWorker(slot, storeChannel);
  }

  #create(): StoreProcess {
    const { slots, log, workers } = this.#options;
    return new StoreProcess({
      slots,
      onState: (state) => {
        this.#state = state;
      },
      onViolation: (worker, err) => {
        log.error({ err, worker }, 'invalid message from worker, killing it');
        const sender = workers().find(({ slot }) => slot === worker);
        sender?.kill();
      },
    });
  }

  async #open(child: StoreProcess): Promise<void> {
    const initialWorkers = this.#initialWorkers;
    const { maxKeys, slots, workers } = this.#options;
    const { evicted } = this.#state;
    await child.open({ maxKeys, evicted, workers: initialWorkers.map(({ slot }) => slot) });
    for (let slot = 1; slot <= slots; slot++) {
      const worker = initialWorkers.find((each) => each.slot === slot);
      if (worker !== undefined && workers().includes(worker))
        worker.connectStore(child.channel(slot));
      else child.channel(slot).destroy();
    }
    if (this.#standby.child === undefined) this.#standby.fillAfter(STANDBY_PAUSE_MS);
  }

  /** From now on, the pair starts no store processes. */
  close(): void {
    this.#standby.close();
    this.#active.close();
  }

  /** Kills both processes. Resolves when they have exited. */
  async stop(): Promise<void> {
    this.close();
    const { children } = this;
    for (const child of children) child.kill();
    await Promise.all(children.map(({ exited }) => exited));
  }
}
