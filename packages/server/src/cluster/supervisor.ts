/**
 * The parent process of `--workers`: starts the workers and the store process, kills processes that
 * hang, replaces those that exit, and hands accepted connections to the workers.
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
  DEADLINE_MS,
  type GroupQuery,
  type Listeners,
  type ReloadOutcome,
} from './messages.ts';
import { MetricsTotals } from './metrics-totals.ts';
import { ProcessSlot } from './process-slot.ts';
import { type AppliedChange, SharedState, type SharedStateOptions } from './shared-state.ts';
import { StoreHost } from './store-host.ts';
import { type LogLines, WorkerHandle } from './worker-handle.ts';

/** How long a shutdown accepts connections from the backlog. */
const MAX_ACCEPT_MS = 1000;

export interface WorkersOptions extends SharedStateOptions {
  readonly settings: Settings;
  /** Receives the log lines of the workers. Default: standard output. */
  readonly logTo?: LogLines;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #logTo: LogLines | undefined;
  readonly #sharedState: SharedState;
  /** Undefined with Redis: each worker has its own connection. */
  readonly #store: StoreHost | undefined;
  readonly #evictionLog: EvictionLog | undefined;
  readonly #slots: readonly ProcessSlot<WorkerHandle>[];
  readonly #balancer = new ConnectionBalancer(() => this.#workers);
  readonly #watchdog = new Watchdog(() => [...this.#workers, ...(this.#store?.children ?? [])]);
  readonly #metrics: MetricsTotals<WorkerHandle>;
  #listeners: Listeners = {};
  /** The running reload, and the next one, which all requests during the running one share. */
  #reloading: Promise<unknown> = Promise.resolve();
  #nextReload: Promise<ReloadOutcome> | undefined = undefined;
  #isNextIfChanged = true;

  private constructor({ settings, log, logTo }: WorkersOptions, sharedState: SharedState) {
    const { workers, store, maxKeys } = settings;
    this.#settings = workerSettings(settings);
    this.#log = log;
    this.#logTo = logTo;
    this.#sharedState = sharedState;
    this.#metrics = new MetricsTotals<WorkerHandle>((worker) =>
      worker.rpc.call('query', { name: 'metrics' }, DEADLINE_MS.query),
    );
    this.#slots = Array.from({ length: workers }, (_, at) => this.#slotFor(at + 1));
    if (!storeKind(store).isEmbedded) return;
    this.#store = new StoreHost({ maxKeys, slots: workers, log, workers: () => this.#workers });
    this.#evictionLog = new EvictionLog(log, this.#store);
  }

  /** Resolves when all workers serve. If one cannot start, all are stopped. */
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
    supervisor.#metrics.start(() => supervisor.#responsive);
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

  get #responsive(): readonly WorkerHandle[] {
    return this.#workers.filter(({ isResponsive }) => isResponsive);
  }

  /** Connections accepted before the workers serve wait in the balancer. */
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
          () => ({ ...common, ...this.#sharedState.order() }),
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
    const isHosted = this.#store !== undefined;
    const onReady = (): void => this.#balancer.distribute();
    const worker = new WorkerHandle({ slot, logTo: this.#logTo, isHosted, onReady });
    this.#store?.serve(worker);
    const { rpc } = worker;
    rpc.handle('reload', (options) => this.#reload(options as ReloadOptions));
    rpc.handle('override', (body) => this.#publish('override', this.#sharedState.override(body)));
    rpc.handle('shadow', (body) => this.#publish('shadow', this.#sharedState.shadow(body)));
    rpc.handle('gather', (body) => this.#gather(body as GroupQuery));
    return worker;
  }

  /** Reads the files once for all workers. If they have problems, the old configuration stays. */
  async reload(options: ReloadOptions = {}): Promise<ReloadReport> {
    const outcome = await this.#reload(options);
    return { ok: outcome.problems.length === 0, ...outcome };
  }

  /** Reloads run one after the other. All requests during one share the next. */
  #reload({ ifChanged = false }: ReloadOptions): Promise<ReloadOutcome> {
    this.#isNextIfChanged &&= ifChanged;
    if (this.#nextReload !== undefined) return this.#nextReload;
    const next = this.#reloading.then(async () => {
      const options = { ifChanged: this.#isNextIfChanged };
      this.#nextReload = undefined;
      this.#isNextIfChanged = true;
      const outcome = await this.#sharedState.reload(options);
      await this.#confirmed('configure', (worker) =>
        worker.configure(outcome, this.#sharedState.config),
      );
      return outcome;
    });
    this.#nextReload = next;
    this.#reloading = next.catch(() => {});
    return next;
  }

  /** Sends a change to all workers. */
  async #publish(name: ApiChangeName, { change, error }: AppliedChange): Promise<ApiChangeResult> {
    // The worker that made the change also gets it: a change of another one may have come first.
    await this.#confirmed(name, ({ rpc }) => rpc.call(name, change, DEADLINE_MS.change));
    if (error !== undefined) throw error;
    return { isSaved: await this.#sharedState.saved() };
  }

  async #gather(query: GroupQuery): Promise<readonly unknown[]> {
    if (query.name === 'metrics') return this.#metrics.gather(this.#responsive);
    const calls = this.#responsive.map(({ rpc }) => rpc.call('query', query, DEADLINE_MS.query));
    const results = await Promise.allSettled(calls);
    return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** Resolves when all serving workers have confirmed. A starting one confirms before it serves. */
  async #confirmed(what: string, send: (worker: WorkerHandle) => Promise<unknown>): Promise<void> {
    const sent = this.#workers.map(async (worker) => {
      const { isServing, slot } = worker;
      const confirmed = send(worker).catch((err) => {
        // Its exit is logged, and its replacement starts with the new state.
        if (!isServing || this.#slots[slot - 1].child !== worker) return;
        this.#log.warn({ err, worker: slot }, `${what} not confirmed by a worker`);
      });
      if (isServing) await confirmed;
    });
    await Promise.all(sent);
  }

  /** Completes the requests in flight, then stops all processes. Each step is bounded in time. */
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

  /** Kills all processes. */
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
 * Divides limits of the service among the workers: the local share if the store is unavailable, and
 * logged denials. Only the supervisor has the overrides file.
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
