/** A worker process: the service, with connections and shared state from the supervisor. */
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
import { HostedStore } from './hosted-store.ts';
import {
  type ApiChange,
  type ApiChangeName,
  type ApiChangeResult,
  DEADLINE_MS,
  type GroupQuery,
  type Listeners,
  type ReloadOutcome,
  STORE_FD,
  type StartOrder,
} from './messages.ts';
import type { ProcessGroup } from './process-group.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';
import { parseOverrideChange, withoutSource } from './shared-state.ts';

/**
 * Deadline for the embedded store in the store process, if `deadlineMs` is shorter. The default of
 * 15 ms is for a remote server. The store process decides within microseconds, but may wait for a
 * processor, and a fallback decision would be worse than the wait.
 */
const MIN_DEADLINE_MS = 100;

/** Connections that the supervisor has accepted. */
class WorkerListeners implements ConnectionSource {
  readonly #listeners: Listeners;
  readonly #receivers = new Map<unknown, (socket: Socket) => void>();

  constructor(listeners: Listeners) {
    this.#listeners = listeners;
    process.on('message', (message: unknown, socket: unknown) => {
      if (!isRecord(message) || message.kind !== 'connection') return;
      // Confirmed before anything is read: unconfirmed connections are given to another worker.
      process.send?.({ kind: 'taken', id: message.id }, () => {});
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

/** The process group as a worker sees it. The supervisor passes calls on to the other workers. */
class WorkerGroup implements ProcessGroup {
  readonly #channel: RpcChannel;
  readonly #order: StartOrder;
  readonly #handlers = new Map<string, (detail: unknown) => unknown>();
  #configuration: Configuration | undefined = undefined;
  #decisionService: DecisionService | undefined = undefined;
  /** Reload outcomes that are still to be applied. */
  readonly #outcomes: (readonly [outcome: ReloadOutcome, config: Config])[] = [];
  #syncing: Promise<unknown> = Promise.resolve();
  isSaved: boolean;

  constructor(
    channel: RpcChannel,
    order: StartOrder,
    readonly source: ConnectionSource,
  ) {
    this.#channel = channel;
    this.#order = order;
    this.isSaved = order.isSaved;
  }

  join(decisionService: DecisionService, configuration: Configuration): void {
    this.#decisionService = decisionService;
    this.#configuration = configuration;
    const { overrides, shadowOverrides, reloads } = this.#order;
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
    return (await this.#channel.call('gather', query, 2 * DEADLINE_MS.query)) as unknown[];
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
    const published = this.#channel.call(name, change, 2 * DEADLINE_MS.change).then((result) => {
      this.isSaved = (result as ApiChangeResult).isSaved;
    });
    this.#syncing = Promise.all([this.#syncing.catch(() => {}), published]);
    // `synced` reports the error.
    this.#syncing.catch(() => {});
  }

  /** Applies an override that was set or deleted through the API of any worker. */
  override(body: unknown): void {
    const { policy, key, override } = parseOverrideChange(body);
    const overrides = this.#decisionService!.overrides;
    if (override === undefined) overrides.delete(policy, key, { isRemote: true });
    else overrides.set(override, { isRemote: true });
  }

  shadow(body: unknown): void {
    this.#decisionService!.shadowOverrides.set(shadowOverrideOf(body), { isRemote: true });
  }

  /** Applies a configuration that the supervisor has read. */
  async configure(outcome: ReloadOutcome, config: Config): Promise<void> {
    this.#outcomes.push([outcome, config]);
    await this.#configuration!.replace(outcome.isUnchanged);
  }

  /** Returns the configuration that the supervisor has read, instead of reading files. */
  readonly load = async (): Promise<Config> => {
    const [{ problems }, config] = this.#outcomes.shift()!;
    if (problems.length > 0) throw new ConfigError(problems);
    return config;
  };

  /** Has the supervisor read the files and send them to all workers, this one included. */
  async #reload(options: ReloadOptions): Promise<ReloadOutcome> {
    return (await this.#channel.call('reload', options, DEADLINE_MS.reload)) as ReloadOutcome;
  }
}

class WorkerProcess {
  readonly #channel: RpcChannel;
  #group: WorkerGroup | undefined = undefined;
  #service: Promise<Service> | undefined = undefined;
  /** Slices of the next configuration. */
  #parts = new ConfigParts();
  readonly #store = new HostedStore();

  constructor(channel: RpcChannel, isHosted: boolean) {
    this.#channel = channel;
    process.on('message', (message: unknown, channel: unknown) => {
      if (!isRecord(message) || message.kind !== 'store') return;
      if (channel instanceof Socket) this.#store.connect(channel);
    });
    if (isHosted) {
      this.#store.connect(new Socket({ fd: STORE_FD, readable: true, writable: true }));
    }
    channel.handle('slice', (slice) => this.#parts.add(slice as ConfigSlice));
    channel.handle('start', (order) => this.#start(order as StartOrder));
    channel.handle('configure', (outcome) => this.#configure(outcome as ReloadOutcome));
    channel.handle('override', (body) => this.#whenServing(() => this.#group!.override(body)));
    channel.handle('shadow', (body) => this.#whenServing(() => this.#group!.shadow(body)));
    channel.handle('query', (query) => this.#group!.run(query as GroupQuery));
    channel.handle('stop', () => this.#stop());
  }

  async #start(order: StartOrder): Promise<void> {
    const { settings, worker } = order;
    const config = this.#takeConfig();
    const log = makeLog(settings).child({ worker });
    const group = new WorkerGroup(this.#channel, order, new WorkerListeners(order.listeners));
    const { isEmbedded } = storeKind(settings.store);
    const open = isEmbedded ? this.#openHosted(settings) : openStore(settings, storeListeners(log));
    this.#group = group;
    // Set before it is awaited: changes that arrive during the start wait for it.
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

  /** Delays changes until the service runs. Earlier ones are part of the start order. */
  async #whenServing(work: () => unknown): Promise<unknown> {
    if (this.#service === undefined) return undefined;
    await this.#service;
    return work();
  }

  #configure(outcome: ReloadOutcome): Promise<unknown> {
    const config = this.#takeConfig();
    return this.#whenServing(() => this.#group!.configure(outcome, config));
  }

  /** The store process decides, under the same failure policy as Redis. */
  #openHosted({ deadlineMs: givenMs, onFailure, localShare, ...settings }: Settings): OpenStore {
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

/** Serves until the supervisor stops it or exits. */
export function runWorker(): void {
  // A terminal sends signals to all processes; the supervisor handles them.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  exitWithSupervisor();
  new WorkerProcess(new RpcChannel(process as Port), process.argv.includes('store'));
  sendHeartbeats();
}
