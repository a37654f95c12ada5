/**
 * The first process, where several serve: it starts the others, kills those that hang, replaces
 * those that exit, and deals out connections. It decides nothing: with the embedded store another
 * process does.
 */
import type { ReloadOptions, ReloadReport } from '../configuration.ts';
import { EvictionLog } from '../observe/eviction-log.ts';
import type { Logger } from '../observe/log.ts';
import { type Listen, listenText, type Settings } from '../settings.ts';
import { storeKind } from '../stores/index.ts';
import { ConnectionBalancer } from './connection-balancer.ts';
import { Watchdog } from './heartbeat.ts';
import {
  DEADLINE_MS,
  type GroupRequest,
  type Listeners,
  type ReloadOutcome,
  type StateChangeName,
  type StateChangeResult,
} from './messages.ts';
import { MetricsTotals } from './metrics-totals.ts';
import { ProcessSlot } from './process-slot.ts';
import { type Heard, SharedState, type SharedStateOptions } from './shared-state.ts';
import { StoreHost } from './store-host.ts';
import { type LogLines, WorkerHandle } from './worker-handle.ts';

/** When stopping, connections that wait to be accepted are accepted for this long at the most. */
const LISTEN_MS = 1000;

export interface WorkersOptions extends SharedStateOptions {
  /** How many, among other things. */
  readonly settings: Settings;
  /** Takes what workers log. Default: standard output. */
  readonly logTo?: LogLines;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #logTo: LogLines | undefined;
  readonly #sharedState: SharedState;
  /** Undefined with Redis, which each worker asks itself. */
  readonly #store: StoreHost | undefined;
  readonly #evictionLog: EvictionLog | undefined;
  readonly #places: readonly ProcessSlot<WorkerHandle>[];
  readonly #balancer = new ConnectionBalancer(() => this.#members);
  readonly #watchdog = new Watchdog(() => [...this.#members, ...(this.#store?.children ?? [])]);
  readonly #metrics: MetricsTotals<WorkerHandle>;
  #listeners: Listeners = {};
  /** The reload that is under way, and the one after it that all further requests share. */
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
      worker.rpc.ask('question', { question: 'metrics' }, DEADLINE_MS.question),
    );
    this.#places = Array.from({ length: workers }, (_, at) => this.#placeOf(at + 1));
    if (!storeKind(store).isEmbedded) return;
    this.#store = new StoreHost({ maxKeys, log, members: () => this.#members });
    this.#evictionLog = new EvictionLog(log, this.#store);
  }

  /** Resolves when all workers serve; if one cannot, none does. */
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

  /** The workers that are there now. */
  get pids(): readonly number[] {
    return this.#members.map(({ pid }) => pid);
  }

  /** The process that holds the counters of the embedded store; undefined with Redis. */
  get storePid(): number | undefined {
    return this.#store?.pid;
  }

  get #members(): readonly WorkerHandle[] {
    return this.#places.flatMap(({ child }) => child ?? []);
  }

  get #responsive(): readonly WorkerHandle[] {
    return this.#members.filter(({ isResponsive }) => isResponsive);
  }

  /** Connections that come before the workers serve wait. */
  async #openListeners(): Promise<void> {
    const { listen, grpc } = this.#settings;
    const onError = (err: Error): void => this.#log.error({ err }, 'a connection failed');
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
      await Promise.all(this.#places.map((place) => place.fill()));
    } catch (error) {
      this.kill();
      await Promise.all([this.#balancer.close(0), ...this.#members.map(({ gone }) => gone)]);
      throw error;
    }
  }

  #placeOf(slot: number): ProcessSlot<WorkerHandle> {
    return new ProcessSlot<WorkerHandle>({
      what: 'worker',
      fields: { worker: slot },
      log: this.#log,
      make: () => this.#employ(slot),
      begin: async (worker) => {
        const common = { settings: this.#settings, listeners: this.#listeners, worker: slot };
        await worker.start(
          () => this.#sharedState.config,
          () => ({ ...common, ...this.#sharedState.order() }),
        );
        this.#balancer.show();
      },
      gone: (worker) => {
        this.#metrics.departed(worker);
        this.#balancer.show(worker.takeBack());
      },
    });
  }

  #employ(slot: number): WorkerHandle {
    const isHosted = this.#store !== undefined;
    const onReady = (): void => this.#balancer.show();
    const worker = new WorkerHandle({ slot, logTo: this.#logTo, isHosted, onReady });
    this.#store?.serve(worker);
    const { rpc } = worker;
    rpc.answer('reload', (options) => this.#reload(options as ReloadOptions));
    rpc.answer('override', (body) => this.#keep('override', this.#sharedState.override(body)));
    rpc.answer('shadow', (body) => this.#keep('shadow', this.#sharedState.shadow(body)));
    rpc.answer('gather', (body) => this.#gather(body as GroupRequest));
    return worker;
  }

  /** Reads the files once, for all; if anything is wrong with them, everybody goes on as before. */
  async reload(): Promise<ReloadReport> {
    const { problems, fingerprint } = await this.#reload({});
    return { ok: problems.length === 0, problems, fingerprint };
  }

  /** Reloads take turns. Those that are asked for while one is under way share the next. */
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

  async #keep(name: StateChangeName, { word, refusal }: Heard): Promise<StateChangeResult> {
    // Whoever made the change is told too, because another's may have come first.
    await this.#confirmed(name, ({ rpc }) => rpc.ask(name, word, DEADLINE_MS.word));
    if (refusal !== undefined) throw refusal;
    return { isSaved: await this.#sharedState.saved() };
  }

  async #gather({ question, detail }: GroupRequest): Promise<readonly unknown[]> {
    if (question === 'metrics') return this.#metrics.gather(this.#responsive);
    const asked = this.#responsive.map(({ rpc }) =>
      rpc.ask('question', { question, detail }, DEADLINE_MS.question),
    );
    const results = await Promise.allSettled(asked);
    return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** Waits for the workers that serve. One that is starting confirms before it serves. */
  async #confirmed(what: string, send: (worker: WorkerHandle) => Promise<unknown>): Promise<void> {
    const sent = this.#members.map(async (worker) => {
      const { isServing, slot } = worker;
      const confirmed = send(worker).catch((err) => {
        // The exit of a worker is logged by itself, and another one starts with what counts then.
        if (!isServing || this.#places[slot - 1].child !== worker) return;
        this.#log.warn({ err, worker: slot }, `${what} not confirmed by a worker`);
      });
      if (isServing) await confirmed;
    });
    await Promise.all(sent);
  }

  /** Has all answer what is in flight, then lets everything go. */
  async close(): Promise<void> {
    this.#stopReplacing();
    const { drainMs } = this.#settings;
    await this.#balancer.close(Math.min(LISTEN_MS, drainMs / 2));
    await Promise.all(this.#members.map((worker) => worker.leave(drainMs)));
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    await this.#store?.stop();
    await this.#sharedState.close();
  }

  /** Ends all processes at once. */
  kill(): void {
    this.#stopReplacing();
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    for (const worker of this.#members) worker.kill();
    void this.#store?.stop();
  }

  #stopReplacing(): void {
    for (const place of this.#places) place.close();
    this.#store?.close();
    this.#metrics.stop();
  }
}

/**
 * What a setting says of the service is shared out: if the store is unavailable each worker admits
 * its part, and logs its part. The file of the overrides is the supervisor's.
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
