/** A worker: the whole service in a process of its own, but for what the supervisor keeps. */
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
import { sendHeartbeats } from './heartbeat.ts';
import { HostedStore } from './hosted-store.ts';
import {
  DEADLINE_MS,
  type GroupRequest,
  type Listeners,
  type ReloadOutcome,
  STORE_FD,
  type StartOrder,
  type StateChange,
  type StateChangeName,
  type StateChangeResult,
} from './messages.ts';
import type { ProcessGroup } from './process-group.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';
import { plain, wordOf } from './shared-state.ts';

/** Connections that the supervisor has accepted. */
class WorkerListeners implements ConnectionSource {
  readonly #listeners: Listeners;
  readonly #takers = new Map<unknown, (socket: Socket) => void>();

  constructor(listeners: Listeners) {
    this.#listeners = listeners;
    process.on('message', (message: unknown, socket: unknown) => {
      if (!isRecord(message) || message.kind !== 'connection') return;
      // Confirmed before anything is read: the supervisor gives those that were not to another one.
      process.send?.({ kind: 'taken', id: message.id }, () => {});
      if (!(socket instanceof Socket)) return;
      const take = this.#takers.get(message.door);
      if (take === undefined) socket.destroy();
      else take(socket);
    });
  }

  open(name: ListenerName, take: (socket: Socket) => void): Listen {
    const listen = this.#listeners[name];
    if (listen === undefined) throw new Error(`There is no door for ${name}`);
    this.#takers.set(name, take);
    return listen;
  }
}

/** The crew as a worker knows it: whatever concerns the others goes by way of the supervisor. */
class WorkerGroup implements ProcessGroup {
  readonly #channel: RpcChannel;
  readonly #order: StartOrder;
  readonly #handlers = new Map<string, (detail: unknown) => unknown>();
  #configuration: Configuration | undefined = undefined;
  #decisionService: DecisionService | undefined = undefined;
  /** What the supervisor has read and is still to be taken over. */
  readonly #outcomes: (readonly [outcome: ReloadOutcome, config: Config])[] = [];
  #telling: Promise<unknown> = Promise.resolve();
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
      const { policy, key } = override;
      const word = { policy, key, ...(op === 'set' && { override: plain(override) }) };
      if (!isRemote) this.#tell('override', word);
    });
    decisionService.shadowOverrides.onChange(({ policy, shadow, isRemote }) => {
      if (!isRemote) this.#tell('shadow', { policy, shadow });
    });
  }

  answer(question: string, handler: (detail: unknown) => unknown): void {
    this.#handlers.set(question, handler);
  }

  /** What this worker says to a question of the crew. */
  answerTo({ question, detail }: GroupRequest): unknown {
    const handler = this.#handlers.get(question);
    if (handler === undefined) throw new Error(`Nobody answers ${question}`);
    return handler(detail);
  }

  async gather(question: string, detail?: unknown): Promise<readonly unknown[]> {
    const body: GroupRequest = { question, detail };
    const answers = await this.#channel.ask('gather', body, 2 * DEADLINE_MS.question);
    return answers as readonly unknown[];
  }

  async told(): Promise<void> {
    try {
      await this.#telling;
    } catch (error) {
      const why = `The other processes were not told: ${(error as Error).message}`;
      throw new SluiceError('ERR_STORE_UNAVAILABLE', why);
    }
  }

  #tell(name: StateChangeName, word: StateChange): void {
    const told = this.#channel.ask(name, word, 2 * DEADLINE_MS.word).then((answer) => {
      this.isSaved = (answer as StateChangeResult).isSaved;
    });
    this.#telling = Promise.all([this.#telling.catch(() => {}), told]);
    // Whoever made the change asks what became of it; until then it is nobody's.
    this.#telling.catch(() => {});
  }

  /** Takes over what the API says of a key, here or at another worker. */
  override(body: unknown): void {
    const { policy, key, override } = wordOf(body);
    const overrides = this.#decisionService!.overrides;
    if (override === undefined) overrides.delete(policy, key, { isRemote: true });
    else overrides.set(override, { isRemote: true });
  }

  /** The same for what it says of a policy. */
  shadow(body: unknown): void {
    this.#decisionService!.shadowOverrides.set(shadowOverrideOf(body), { isRemote: true });
  }

  /** Takes over what the supervisor has read. */
  async configure(outcome: ReloadOutcome, config: Config): Promise<void> {
    this.#outcomes.push([outcome, config]);
    await this.#configuration!.replace(outcome.isUnchanged);
  }

  /** In the place of reading files. */
  readonly load = async (): Promise<Config> => {
    const [{ problems }, config] = this.#outcomes.shift()!;
    if (problems.length > 0) throw new ConfigError(problems);
    return config;
  };

  /** The supervisor reads the files and has all workers take them over, this one included. */
  async #reload(options: ReloadOptions): Promise<ReloadOutcome> {
    return (await this.#channel.ask('reload', options, DEADLINE_MS.reload)) as ReloadOutcome;
  }
}

class WorkerProcess {
  readonly #channel: RpcChannel;
  #group: WorkerGroup | undefined = undefined;
  #service: Promise<Service> | undefined = undefined;
  /** The next configuration, as far as it has come. */
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
    channel.answer('slice', (slice) => this.#parts.add(slice as ConfigSlice));
    channel.answer('start', (order) => this.#start(order as StartOrder));
    channel.answer('configure', (outcome) => this.#configure(outcome as ReloadOutcome));
    channel.answer('override', (word) => this.#whenServing(() => this.#group!.override(word)));
    channel.answer('shadow', (word) => this.#whenServing(() => this.#group!.shadow(word)));
    channel.answer('question', (body) => this.#group!.answerTo(body as GroupRequest));
    channel.answer('leave', () => this.#leave());
  }

  async #start(order: StartOrder): Promise<void> {
    const { settings, worker } = order;
    const config = this.#takeConfig();
    const log = makeLog(settings).child({ worker });
    const group = new WorkerGroup(this.#channel, order, new WorkerListeners(order.listeners));
    const { isEmbedded } = storeKind(settings.store);
    const open = isEmbedded ? this.#openHosted(settings) : openStore(settings, storeListeners(log));
    this.#group = group;
    // Known at once, because what comes while it starts waits for it.
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

  /** What comes while it starts has to wait, in order; what came before is in its start order. */
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
  #openHosted({ deadlineMs, onFailure, localShare, ...settings }: Settings): OpenStore {
    const store = withFailurePolicy(this.#store, { deadlineMs, onFailure, localShare });
    return { store, kind: storeKind(settings.store).name, close: async () => {} };
  }

  async #leave(): Promise<void> {
    const service = await this.#service;
    await service?.close();
    await flushLog();
    process.exit(0);
  }
}

/** Serves until the supervisor says otherwise, or is gone. */
export function runWorker(): void {
  // A terminal sends them to all processes; what they mean is for the supervisor to say.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.exit(1));
  new WorkerProcess(new RpcChannel(process as Port), process.argv.includes('store'));
  sendHeartbeats();
}
