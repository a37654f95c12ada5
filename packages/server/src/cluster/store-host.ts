/**
 * Keeps a store process running for the workers, and a spare one that has loaded its modules and
 * replaces it at once: starting a Node process takes 0.3 s, and seconds on an overloaded machine.
 */
import type { Store } from 'sluice';
import type { Logger } from '../observe/log.ts';
import { ProcessSlot } from './process-slot.ts';
import { StoreProcess, type StoreState } from './store-process.ts';
import type { WorkerHandle } from './worker-handle.ts';

/** Pause before a new spare is started, so that it does not slow down the recovery. */
const SPARE_PAUSE_MS = 1000;

export interface StoreHostOptions {
  readonly maxKeys: number;
  /** Number of worker slots. */
  readonly slots: number;
  readonly log: Logger;
  /** Returns the running workers. */
  workers(): readonly WorkerHandle[];
}

export class StoreHost implements Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'> {
  readonly #options: StoreHostOptions;
  readonly #active: ProcessSlot<StoreProcess>;
  readonly #spare: ProcessSlot<StoreProcess>;
  /** Workers when the store process was created. Later ones bring their own channel. */
  #connected: readonly WorkerHandle[] = [];
  #state: StoreState = { size: 0, evicted: 0, guaranteedKeys: undefined };

  constructor(options: StoreHostOptions) {
    this.#options = options;
    const common = { fields: {}, log: options.log, onExit: () => {} };
    this.#active = new ProcessSlot<StoreProcess>({
      ...common,
      name: 'store process',
      create: () => {
        this.#connected = options.workers();
        return this.#spare.take() ?? this.#create();
      },
      start: (child) => this.#open(child),
    });
    this.#spare = new ProcessSlot<StoreProcess>({
      ...common,
      name: 'spare store process',
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
    return [this.#active, this.#spare].flatMap(({ child }) => child ?? []);
  }

  get size(): number {
    return this.#state.size;
  }

  /** Evictions of all store processes since the start of the service. */
  get evicted(): number {
    return this.#state.evicted;
  }

  get guaranteedKeys(): number | undefined {
    return this.#state.guaranteedKeys;
  }

  /** Connects a worker that is being started. */
  serve({ slot, storeChannel }: WorkerHandle): void {
    const { child } = this.#active;
    // The next store process is given a channel to each worker.
    if (child === undefined) storeChannel.destroy();
    else child.serve(slot, storeChannel);
  }

  #create(): StoreProcess {
    const { slots, log, workers } = this.#options;
    return new StoreProcess({
      slots,
      onState: (state) => {
        this.#state = state;
      },
      onViolation: (worker, err) => {
        log.error({ err, worker }, 'invalid message from worker');
        const sender = workers().find(({ slot }) => slot === worker);
        sender?.kill();
      },
    });
  }

  async #open(child: StoreProcess): Promise<void> {
    const connected = this.#connected;
    const { maxKeys, slots, workers } = this.#options;
    const { evicted } = this.#state;
    await child.open({ maxKeys, evicted, workers: connected.map(({ slot }) => slot) });
    for (let slot = 1; slot <= slots; slot++) {
      const worker = connected.find((each) => each.slot === slot);
      if (worker !== undefined && workers().includes(worker)) worker.giveStore(child.channel(slot));
      else child.channel(slot).destroy();
    }
    if (this.#spare.child === undefined) this.#spare.fillAfter(SPARE_PAUSE_MS);
  }

  /** Stops replacing the process. */
  close(): void {
    this.#spare.close();
    this.#active.close();
  }

  async stop(): Promise<void> {
    this.close();
    const { children } = this;
    for (const child of children) child.kill();
    await Promise.all(children.map(({ exited }) => exited));
  }
}
