/**
 * The parent process of `--workers`. Starts the workers and the store process, accepts connections
 * and hands them to the workers. Reloads the configuration. Sends the new configuration and changes
 * made through the API to all workers. Kills child processes that hang, and replaces child
 * processes that exit. If the supervisor itself exits, all child processes exit.
 */
import type { ReloadOptions, ReloadReport } from '../configuration.ts';
import { EvictionLog } from '../observe/eviction-log.ts';
import type { Logger } from '../observe/log.ts';
import { type Listen, listenText, type Settings } from '../settings.ts';
import { storeKind } from '../stores/index.ts';
import { ConnectionBalancer } from './connection-balancer.ts';
import { Watchdog } from './heartbeat.ts';
import {
  type ApiChangeName,
  type ApiChangeResult,
  CALL_TIMEOUT_MS,
  type GroupQuery,
  type Listeners,
  type ReloadOutcome,
} from './messages.ts';
import { MetricsTotals } from './metrics-totals.ts';
import { ProcessSlot } from './process-slot.ts';
import { type AppliedChange, SharedState, type SharedStateOptions } from './shared-state.ts';
import { StoreProcessPair } from './store-process-pair.ts';
import { type LogLineWriter, WorkerHandle } from './worker-handle.ts';

/** Maximum time for which a shutdown still accepts connections from the backlog. */
const MAX_ACCEPT_MS = 1000;

/** Options of `serveWithWorkers`. */
export interface WorkersOptions extends SharedStateOptions {
  readonly settings: Settings;
  /** Receives the log lines of the workers. Default: the workers write to standard output. */
  readonly logTo?: LogLineWriter;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #logTo: LogLineWriter | undefined;
  readonly #sharedState: SharedState;
  /** Undefined with Redis, because each worker has its own connection to Redis. */
  readonly #store: StoreProcessPair | undefined;
  readonly #evictionLog: EvictionLog | undefined;
  readonly #slots: readonly ProcessSlot<WorkerHandle>[];
  readonly #balancer = new ConnectionBalancer(() => this.#workers);
  readonly #watchdog = new Watchdog(() => [...this.#workers, ...(this.#store?.children ?? [])]);
  readonly #metrics: MetricsTotals<WorkerHandle>;
  #listeners: Listeners = {};
  /** Settles when the running reload is complete. */
  #reloading: Promise<unknown> = Promise.resolve();
  /** The reload that starts after the running one. All calls during the running reload share it. */
  #nextReload: Promise<ReloadOutcome> | undefined = undefined;
  /** Whether the next reload is skipped if the files have not changed. */
  #isNextIfChanged = true;

  private constructor({ settings, log, logTo }: WorkersOptions, sharedState: SharedState) {
    const { workers, store, maxKeys } = settings;
    this.#settings = workerSettings(settings);
    this.#log = log;
    this.#logTo = logTo;
    this.#sharedState = sharedState;
    this.#metrics = new MetricsTotals<WorkerHandle>((worker) =>
      worker.rpc.call('query', { name: 'metrics' }, CALL_TIMEOUT_MS.query),
    );
    this.#slots = Array.from({ length: workers }, (_, at) => this.#slotFor(at + 1));
    if (!storeKind(store).isEmbedded) return;
    this.#store = new StoreProcessPair({
      maxKeys,
      slots: workers,
      log,
      workers: () => this.#workers,
    });
    this.#evictionLog = new EvictionLog(log, this.#store);
  }

  /**
   * Starts all processes. Resolves when all workers serve. If one process cannot start, kills all
   * processes and rejects.
   */
  static async start(options: WorkersOptions): Promise<Supervisor> {
    const sharedState = await SharedState.open(options);
    const supervisor = new Supervisor(options, sharedState);
    try {
      await supervisor.#openListeners();
      await supervisor.#startAll();
    } catch (error) {
      await sharedState.close();
      throw error;
    }
    supervisor.#evictionLog?.start();
    supervisor.#metrics.start(() => supervisor.#responsiveWorkers);
    return supervisor;
  }

  get http(): Listen {
    return this.#listeners.http!;
  }

  get grpc(): Listen | undefined {
    return this.#listeners.grpc;
  }

  /** `http://127.0.0.1:8080` */
  get url(): string {
    const scheme = this.#settings.tlsCert === undefined ? 'http' : 'https';
    return `${scheme}://${listenText(this.http)}`;
  }

  /** Process ids of the running workers. */
  get pids(): readonly number[] {
    return this.#workers.map(({ pid }) => pid);
  }

  /** Process id of the store process; undefined with Redis. */
  get storePid(): number | undefined {
    return this.#store?.pid;
  }

  get #workers(): readonly WorkerHandle[] {
    return this.#slots.flatMap(({ child }) => child ?? []);
  }

  /** Serving workers that sent a heartbeat within `SUSPECT_MS`. */
  get #responsiveWorkers(): readonly WorkerHandle[] {
    return this.#workers.filter(({ isResponsive }) => isResponsive);
  }

  /** Starts to accept connections. They wait in the balancer until a worker serves. */
  async #openListeners(): Promise<void> {
    const { listen, grpc } = this.#settings;
    const onError = (err: Error): void => this.#log.error({ err }, 'accepting a connection failed');
    try {
      this.#listeners = { http: await this.#balancer.open('http', listen, onError) };
      if (grpc === undefined) return;
      this.#listeners = {
        ...this.#listeners,
        grpc: await this.#balancer.open('grpc', grpc, onError),
      };
    } catch (error) {
      await this.#balancer.close(0);
      throw error;
    }
  }

  async #startAll(): Promise<void> {
    this.#watchdog.start();
    try {
      await this.#store?.start();
      await Promise.all(this.#slots.map((slot) => slot.fill()));
    } catch (error) {
      this.kill();
      await Promise.all([this.#balancer.close(0), ...this.#workers.map(({ exited }) => exited)]);
      throw error;
    }
  }

  /** Returns a slot. The slot starts a worker and, if that worker exits, starts another one. */
  #slotFor(slot: number): ProcessSlot<WorkerHandle> {
    return new ProcessSlot<WorkerHandle>({
      name: 'worker',
      fields: { worker: slot },
      log: this.#log,
      create: () => this.#createWorker(slot),
      start: async (worker) => {
        const common = { settings: this.#settings, listeners: this.#listeners, worker: slot };
        await worker.start(
          () => this.#sharedState.config,
          () => ({ ...common, ...this.#sharedState.startState() }),
        );
        this.#balancer.distribute();
      },
      onExit: (worker) => {
        this.#metrics.keepExited(worker);
        this.#balancer.distribute(worker.takeUnconfirmed());
      },
    });
  }

  #createWorker(slot: number): WorkerHandle {
    const hasStoreProcess = this.#store !== undefined;
    const onReady = (): void => this.#balancer.distribute();
    const worker = new WorkerHandle({ slot, logTo: this.#logTo, hasStoreProcess, onReady });
    this.#store?.connect(worker);
    const { rpc } = worker;
    rpc.handle('reload', (options) => this.#reload(options as ReloadOptions));
    rpc.handle('override', (body) =>
      this.#publish('override', this.#sharedState.applyOverride(body)),
    );
    rpc.handle('shadow', (body) =>
      this.#publish('shadow', this.#sharedState.applyShadowOverride(body)),
    );
    rpc.handle('gather', (body) => this.#gather(body as GroupQuery));
    return worker;
  }

  /**
   * Reads the files once for all workers. If a file is invalid, the old configuration stays in use.
   */
  async reload(options: ReloadOptions = {}): Promise<ReloadReport> {
    const outcome = await this.#reload(options);
    return { ok: outcome.problems.length === 0, ...outcome };
  }

  /** Reloads run one after the other. All calls during a reload share the next reload. */
  #reload({ ifChanged = false }: ReloadOptions): Promise<ReloadOutcome> {
    this.#isNextIfChanged &&= ifChanged;
    if (this.#nextReload !== undefined) return this.#nextReload;
    const next = this.#reloading.then(async () => {
      const options = { ifChanged: this.#isNextIfChanged };
      this.#nextReload = undefined;
      this.#isNextIfChanged = true;
      const outcome = await this.#sharedState.reload(options);
      await this.#sendToAll('configure', (worker) =>
        worker.configure(outcome, this.#sharedState.config),
      );
      return outcome;
    });
    this.#nextReload = next;
    this.#reloading = next.catch(() => {});
    return next;
  }

  /**
   * Sends the result of a change to all workers. Rejects if the shared state rejected the change.
   */
  async #publish(name: ApiChangeName, { change, error }: AppliedChange): Promise<ApiChangeResult> {
    // The worker that received the change through its API has already applied it, possibly in a
    // different order relative to other workers' changes. Sending it again gives all workers the
    // supervisor's order.
    await this.#sendToAll(name, ({ rpc }) => rpc.call(name, change, CALL_TIMEOUT_MS.change));
    if (error !== undefined) throw error;
    return { isSaved: await this.#sharedState.saved() };
  }

  /** Runs a query on all responsive workers. Leaves out workers that fail or time out. */
  async #gather(query: GroupQuery): Promise<readonly unknown[]> {
    if (query.name === 'metrics') return this.#metrics.gather(this.#responsiveWorkers);
    const calls = this.#responsiveWorkers.map(({ rpc }) =>
      rpc.call('query', query, CALL_TIMEOUT_MS.query),
    );
    const results = await Promise.allSettled(calls);
    return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /**
   * Calls `send` for all workers. Resolves when each serving worker has confirmed or failed. Does
   * not wait for starting workers: they apply the change before they serve.
   */
  async #sendToAll(
    change: string,
    send: (worker: WorkerHandle) => Promise<unknown>,
  ): Promise<void> {
    const sent = this.#workers.map(async (worker) => {
      const { isServing, slot } = worker;
      const confirmed = send(worker).catch((err) => {
        // If the worker has exited, its slot logs the exit, and its replacement has the new state.
        if (!isServing || this.#slots[slot - 1].child !== worker) return;
        this.#log.warn({ err, worker: slot, change }, 'worker did not confirm a change');
      });
      if (isServing) await confirmed;
    });
    await Promise.all(sent);
  }

  /** Graceful shutdown: completes the requests in flight, then stops all processes. */
  async close(): Promise<void> {
    this.#stopReplacing();
    const { drainMs } = this.#settings;
    await this.#balancer.close(Math.min(MAX_ACCEPT_MS, drainMs / 2));
    await Promise.all(this.#workers.map((worker) => worker.stop(drainMs)));
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    await this.#store?.stop();
    await this.#sharedState.close();
  }

  /** Kills all child processes. */
  kill(): void {
    this.#stopReplacing();
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    for (const worker of this.#workers) worker.kill();
    void this.#store?.stop();
  }

  #stopReplacing(): void {
    for (const slot of this.#slots) slot.close();
    this.#store?.close();
    this.#metrics.stop();
  }
}

/**
 * Returns the settings of one worker. Divides `localShare` and `logDenials`, which apply to the
 * whole service, by the number of workers. Removes the setting `overridesFile`, because only the
 * supervisor writes that file.
 */
function workerSettings(settings: Settings): Settings {
  const { workers, localShare, logDenials } = settings;
  return {
    ...settings,
    localShare: localShare / workers,
    logDenials: Math.ceil(logDenials / workers),
    overridesFile: undefined,
  };
}
