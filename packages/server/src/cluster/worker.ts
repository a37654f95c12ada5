/**
 * Runs in a worker process: a service that receives its connections and its configuration from the
 * supervisor. The worker reports changes made through its API to the supervisor. It sends checks to
 * the store process (`ReconnectingStore`) or to Redis. If the store process hangs or exits, the
 * failure policy decides. If the supervisor exits, the worker exits.
 */
import { Socket } from 'node:net';
import { SluiceError } from 'sluice';
import { isRecord } from 'sluice/engine';
import { withFailurePolicy } from 'sluice/failure';
import { type Config, ConfigError } from '../config/model.ts';
import { ConfigParts, type ConfigSlice } from '../config/slices.ts';
import type { Configuration, ReloadOptions } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { ConnectionSource, ListenerName } from '../http/connection-source.ts';
import { makeLog, storeListeners } from '../observe/log.ts';
import { flushLog } from '../observe/log-output.ts';
import { type Service, startService } from '../service.ts';
import type { Listen, Settings } from '../settings.ts';
import { shadowOverrideOf } from '../shadow-overrides.ts';
import { type OpenStore, openStore, storeKind } from '../stores/index.ts';
import { exitWithSupervisor } from './exit-with-supervisor.ts';
import { sendHeartbeats } from './heartbeat.ts';
import {
  type ApiChange,
  type ApiChangeName,
  type ApiChangeResult,
  CALL_TIMEOUT_MS,
  type GroupQuery,
  type Listeners,
  type ReloadOutcome,
  STORE_FD,
  type StartParameters,
} from './messages.ts';
import type { ProcessGroup } from './process-group.ts';
import { ReconnectingStore } from './reconnecting-store.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';
import { parseOverrideChange, withoutSource } from './shared-state.ts';

/**
 * Minimum deadline for checks by the store process. The default of `deadlineMs`, 15 ms, is meant
 * for a remote server. The store process decides within microseconds, but may have to wait for CPU
 * time. A late decision is then better than a fallback decision.
 */
const MIN_DEADLINE_MS = 100;

/** Receives the connections that the supervisor has accepted. */
class WorkerListeners implements ConnectionSource {
  readonly #listeners: Listeners;
  readonly #receivers = new Map<unknown, (socket: Socket) => void>();

  constructor(listeners: Listeners) {
    this.#listeners = listeners;
    process.on('message', (message: unknown, socket: unknown) => {
      if (!isRecord(message) || message.kind !== 'connection') return;
      // Confirm the connection before reading from the socket. If this worker exits before the
      // confirmation, the supervisor hands the connection to another worker, which can still read
      // all data.
      process.send?.({ kind: 'received', id: message.id }, () => {});
      if (!(socket instanceof Socket)) return;
      const receive = this.#receivers.get(message.listener);
      if (receive === undefined) socket.destroy();
      else receive(socket);
    });
  }

  open(name: ListenerName, receive: (socket: Socket) => void): Listen {
    const listen = this.#listeners[name];
    if (listen === undefined) throw new Error(`The supervisor has no listener for ${name}`);
    this.#receivers.set(name, receive);
    return listen;
  }
}

/** The process group of a worker. All its calls go through the supervisor. */
class WorkerGroup implements ProcessGroup {
  readonly #channel: RpcChannel;
  readonly #parameters: StartParameters;
  readonly #handlers = new Map<string, (detail: unknown) => unknown>();
  #configuration: Configuration | undefined = undefined;
  #decisionService: DecisionService | undefined = undefined;
  /** Outcomes of reloads that the supervisor has sent and that `load` has not processed yet. */
  readonly #outcomes: (readonly [outcome: ReloadOutcome, config: Config])[] = [];
  #syncing: Promise<unknown> = Promise.resolve();
  isSaved: boolean;

  constructor(
    channel: RpcChannel,
    parameters: StartParameters,
    readonly source: ConnectionSource,
  ) {
    this.#channel = channel;
    this.#parameters = parameters;
    this.isSaved = parameters.isSaved;
  }

  join(decisionService: DecisionService, configuration: Configuration): void {
    this.#decisionService = decisionService;
    this.#configuration = configuration;
    const { overrides, shadowOverrides, reloads } = this.#parameters;
    Object.assign(configuration.reloads, reloads);
    configuration.delegate((options) => this.#reload(options));
    for (const each of overrides) decisionService.overrides.set(each, { isRemote: true });
    for (const each of shadowOverrides)
      decisionService.shadowOverrides.set(each, { isRemote: true });
    decisionService.overrides.onChange(({ op, override, isRemote }) => {
      if (isRemote) return;
      const { policy, key } = override;
      const isSet = op === 'set';
      this.#publish('override', {
        policy,
        key,
        ...(isSet && { override: withoutSource(override) }),
      });
    });
    decisionService.shadowOverrides.onChange(({ policy, shadow, isRemote }) => {
      if (!isRemote) this.#publish('shadow', { policy, shadow });
    });
  }

  handle(query: string, handler: (detail: unknown) => unknown): void {
    this.#handlers.set(query, handler);
  }

  /** Runs this worker's handler of a query. */
  run({ name, detail }: GroupQuery): unknown {
    const handler = this.#handlers.get(name);
    if (handler === undefined) throw new Error(`No handler for ${name}`);
    return handler(detail);
  }

  async gather(name: string, detail?: unknown): Promise<readonly unknown[]> {
    const query: GroupQuery = { name, detail };
    return (await this.#channel.call('gather', query, 2 * CALL_TIMEOUT_MS.query)) as unknown[];
  }

  async synced(): Promise<void> {
    try {
      await this.#syncing;
    } catch (error) {
      const why = `The change did not reach the other processes: ${(error as Error).message}`;
      throw new SluiceError('ERR_STORE_UNAVAILABLE', why);
    }
  }

  #publish(name: ApiChangeName, change: ApiChange): void {
    const published = this.#channel
      .call(name, change, 2 * CALL_TIMEOUT_MS.change)
      .then((result) => {
        this.isSaved = (result as ApiChangeResult).isSaved;
      });
    this.#syncing = Promise.all([this.#syncing.catch(() => {}), published]);
    // Avoids an unhandled rejection: `synced` reports the error.
    this.#syncing.catch(() => {});
  }

  /** Applies an override that was set or deleted through the API of any worker. */
  applyOverride(body: unknown): void {
    const { policy, key, override } = parseOverrideChange(body);
    const overrides = this.#decisionService!.overrides;
    if (override === undefined) overrides.delete(policy, key, { isRemote: true });
    else overrides.set(override, { isRemote: true });
  }

  applyShadowOverride(body: unknown): void {
    this.#decisionService!.shadowOverrides.set(shadowOverrideOf(body), { isRemote: true });
  }

  /** Applies a configuration that the supervisor has read and sent. */
  async configure(outcome: ReloadOutcome, config: Config): Promise<void> {
    this.#outcomes.push([outcome, config]);
    await this.#configuration!.replace(outcome.isUnchanged);
  }

  /** Resolves to the configuration that the supervisor has sent, instead of reading files. */
  readonly load = async (): Promise<Config> => {
    const [{ problems }, config] = this.#outcomes.shift()!;
    if (problems.length > 0) throw new ConfigError(problems);
    return config;
  };

  /** Calls the supervisor, which reads the files and sends the configuration to all workers. */
  async #reload(options: ReloadOptions): Promise<ReloadOutcome> {
    return (await this.#channel.call('reload', options, CALL_TIMEOUT_MS.reload)) as ReloadOutcome;
  }
}

/** Handles the calls of the supervisor. */
class WorkerProcess {
  readonly #channel: RpcChannel;
  #group: WorkerGroup | undefined = undefined;
  #service: Promise<Service> | undefined = undefined;
  /** Slices of the next configuration that have arrived. */
  #parts = new ConfigParts();
  readonly #store = new ReconnectingStore();

  constructor(channel: RpcChannel, hasStoreProcess: boolean) {
    this.#channel = channel;
    process.on('message', (message: unknown, channel: unknown) => {
      if (!isRecord(message) || message.kind !== 'store') return;
      if (channel instanceof Socket) this.#store.connect(channel);
    });
    if (hasStoreProcess) {
      this.#store.connect(new Socket({ fd: STORE_FD, readable: true, writable: true }));
    }
    channel.handle('slice', (slice) => this.#parts.add(slice as ConfigSlice));
    channel.handle('start', (parameters) => this.#start(parameters as StartParameters));
    channel.handle('configure', (outcome) => this.#configure(outcome as ReloadOutcome));
    channel.handle('override', (body) => this.#whenServing(() => this.#group!.applyOverride(body)));
    channel.handle('shadow', (body) =>
      this.#whenServing(() => this.#group!.applyShadowOverride(body)),
    );
    channel.handle('query', (query) => this.#group!.run(query as GroupQuery));
    channel.handle('stop', () => this.#stop());
  }

  async #start(parameters: StartParameters): Promise<void> {
    const { settings, worker, listeners } = parameters;
    const config = this.#takeConfig();
    const log = makeLog(settings).child({ worker });
    const source = new WorkerListeners(listeners);
    const group = new WorkerGroup(this.#channel, parameters, source);
    const { isEmbedded } = storeKind(settings.store);
    const open = isEmbedded
      ? this.#storeProcess(settings)
      : openStore(settings, storeListeners(log));
    this.#group = group;
    // `#service` is set before the service has started: changes that arrive meanwhile wait for it.
    this.#service = Promise.resolve(open).then((store) =>
      startService({ settings, store, log, config, load: group.load, group }),
    );
    await this.#service;
  }

  #takeConfig(): Config {
    const { config } = this.#parts;
    this.#parts = new ConfigParts();
    return config;
  }

  /**
   * Runs `work`, which applies a change, when the service has started. Ignores changes before the
   * call `start`, because the parameters of `start` include them.
   */
  async #whenServing(work: () => unknown): Promise<unknown> {
    if (this.#service === undefined) return undefined;
    await this.#service;
    return work();
  }

  #configure(outcome: ReloadOutcome): Promise<unknown> {
    const config = this.#takeConfig();
    return this.#whenServing(() => this.#group!.configure(outcome, config));
  }

  /** Returns a store that calls the store process. It has the same failure policy as Redis. */
  #storeProcess({ deadlineMs: givenMs, onFailure, localShare, ...settings }: Settings): OpenStore {
    const deadlineMs = Math.max(givenMs, MIN_DEADLINE_MS);
    const store = withFailurePolicy(this.#store, { deadlineMs, onFailure, localShare });
    return { store, kind: storeKind(settings.store).name, close: async () => {} };
  }

  async #stop(): Promise<void> {
    const service = await this.#service;
    await service?.close();
    await flushLog();
    process.exit(0);
  }
}

/** Serves until the supervisor sends `stop` or exits. */
export function runWorker(): void {
  // Ctrl-C in a terminal sends SIGINT to all processes. Only the supervisor handles signals.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  exitWithSupervisor();
  new WorkerProcess(new RpcChannel(process as Port), process.argv.includes('store'));
  sendHeartbeats();
}
