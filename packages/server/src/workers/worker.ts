/** A worker: the whole service in a process of its own, but for what the supervisor keeps. */
import { Socket } from 'node:net';
import { SluiceError } from 'sluice';
import { isRecord } from 'sluice/engine';
import { withFailurePolicy } from 'sluice/failure';
import { type Config, ConfigError } from '../config/model.ts';
import { ConfigParts, type ConfigSlice } from '../config/slices.ts';
import type { Configuration, ReloadOptions } from '../configuration.ts';
import type { Desk } from '../desk.ts';
import type { Door, DoorName } from '../http/door.ts';
import { makeLog, storeListeners } from '../observe/log.ts';
import { flushLog } from '../observe/log-output.ts';
import { type Service, startService } from '../service.ts';
import type { Listen, Settings } from '../settings.ts';
import { shadowWordOf } from '../shadow-words.ts';
import { type OpenStore, openStore } from '../store-url.ts';
import type { Crew } from './crew.ts';
import { Dialogue, type Port } from './dialogue.ts';
import { sendHeartbeats } from './heartbeat.ts';
import { HostedStore } from './hosted-store.ts';
import {
  type CrewQuestion,
  DEADLINE_MS,
  type Doors,
  type ReloadOutcome,
  STORE_FD,
  type StartOrder,
  type Word,
  type WordKept,
  type WordName,
} from './messages.ts';
import { plain, wordOf } from './truth.ts';

/** Connections that the supervisor has accepted. */
class WorkerDoor implements Door {
  readonly #doors: Doors;
  readonly #takers = new Map<unknown, (socket: Socket) => void>();

  constructor(doors: Doors) {
    this.#doors = doors;
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

  open(name: DoorName, take: (socket: Socket) => void): Listen {
    const listen = this.#doors[name];
    if (listen === undefined) throw new Error(`There is no door for ${name}`);
    this.#takers.set(name, take);
    return listen;
  }
}

/** The crew as a worker knows it: whatever concerns the others goes by way of the supervisor. */
class WorkerCrew implements Crew {
  readonly #dialogue: Dialogue;
  readonly #order: StartOrder;
  readonly #answerers = new Map<string, (detail: unknown) => unknown>();
  #configuration: Configuration | undefined = undefined;
  #desk: Desk | undefined = undefined;
  /** What the supervisor has read and is still to be taken over. */
  readonly #outcomes: (readonly [outcome: ReloadOutcome, config: Config])[] = [];
  #telling: Promise<unknown> = Promise.resolve();
  isSaved: boolean;

  constructor(
    dialogue: Dialogue,
    order: StartOrder,
    readonly door: Door,
  ) {
    this.#dialogue = dialogue;
    this.#order = order;
    this.isSaved = order.isSaved;
  }

  join(desk: Desk, configuration: Configuration): void {
    this.#desk = desk;
    this.#configuration = configuration;
    const { overrides, shadowWords, reloads } = this.#order;
    Object.assign(configuration.reloads, reloads);
    configuration.delegate((options) => this.#reload(options));
    for (const each of overrides) desk.overrides.set(each, { isRemote: true });
    for (const each of shadowWords) desk.shadowWords.set(each, { isRemote: true });
    desk.overrides.onChange(({ op, override, isRemote }) => {
      const { policy, key } = override;
      const word = { policy, key, ...(op === 'set' && { override: plain(override) }) };
      if (!isRemote) this.#tell('override', word);
    });
    desk.shadowWords.onChange(({ policy, shadow, isRemote }) => {
      if (!isRemote) this.#tell('shadow', { policy, shadow });
    });
  }

  answer(question: string, answerer: (detail: unknown) => unknown): void {
    this.#answerers.set(question, answerer);
  }

  /** What this worker says to a question of the crew. */
  answerTo({ question, detail }: CrewQuestion): unknown {
    const answerer = this.#answerers.get(question);
    if (answerer === undefined) throw new Error(`Nobody answers ${question}`);
    return answerer(detail);
  }

  async gather(question: string, detail?: unknown): Promise<readonly unknown[]> {
    const body: CrewQuestion = { question, detail };
    const answers = await this.#dialogue.ask('gather', body, 2 * DEADLINE_MS.question);
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

  #tell(name: WordName, word: Word): void {
    const told = this.#dialogue.ask(name, word, 2 * DEADLINE_MS.word).then((answer) => {
      this.isSaved = (answer as WordKept).isSaved;
    });
    this.#telling = Promise.all([this.#telling.catch(() => {}), told]);
    // Whoever made the change asks what became of it; until then it is nobody's.
    this.#telling.catch(() => {});
  }

  /** Takes over what the API says of a key, here or at another worker. */
  override(body: unknown): void {
    const { policy, key, override } = wordOf(body);
    const overrides = this.#desk!.overrides;
    if (override === undefined) overrides.delete(policy, key, { isRemote: true });
    else overrides.set(override, { isRemote: true });
  }

  /** The same for what it says of a policy. */
  shadow(body: unknown): void {
    this.#desk!.shadowWords.set(shadowWordOf(body), { isRemote: true });
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
    return (await this.#dialogue.ask('reload', options, DEADLINE_MS.reload)) as ReloadOutcome;
  }
}

class WorkerProcess {
  readonly #dialogue: Dialogue;
  #crew: WorkerCrew | undefined = undefined;
  #service: Promise<Service> | undefined = undefined;
  /** The next configuration, as far as it has come. */
  #parts = new ConfigParts();
  readonly #store = new HostedStore();

  constructor(dialogue: Dialogue, isHosted: boolean) {
    this.#dialogue = dialogue;
    process.on('message', (message: unknown, channel: unknown) => {
      if (!isRecord(message) || message.kind !== 'store') return;
      if (channel instanceof Socket) this.#store.connect(channel);
    });
    if (isHosted) {
      this.#store.connect(new Socket({ fd: STORE_FD, readable: true, writable: true }));
    }
    dialogue.answer('slice', (slice) => this.#parts.add(slice as ConfigSlice));
    dialogue.answer('start', (order) => this.#start(order as StartOrder));
    dialogue.answer('configure', (outcome) => this.#configure(outcome as ReloadOutcome));
    dialogue.answer('override', (word) => this.#whenServing(() => this.#crew!.override(word)));
    dialogue.answer('shadow', (word) => this.#whenServing(() => this.#crew!.shadow(word)));
    dialogue.answer('question', (body) => this.#crew!.answerTo(body as CrewQuestion));
    dialogue.answer('leave', () => this.#leave());
  }

  async #start(order: StartOrder): Promise<void> {
    const { settings, worker } = order;
    const config = this.#takeConfig();
    const log = makeLog(settings).child({ worker });
    const crew = new WorkerCrew(this.#dialogue, order, new WorkerDoor(order.doors));
    const isHosted = settings.store === 'memory';
    const open = isHosted ? this.#openHosted(settings) : openStore(settings, storeListeners(log));
    this.#crew = crew;
    // Known at once, because what comes while it starts waits for it.
    this.#service = Promise.resolve(open).then((store) =>
      startService({ settings, store, log, config, load: crew.load, crew }),
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
    return this.#whenServing(() => this.#crew!.configure(outcome, config));
  }

  /** The store process decides, under the same failure policy as Redis. */
  #openHosted({ deadlineMs, onFailure, localShare }: Settings): OpenStore {
    const store = withFailurePolicy(this.#store, { deadlineMs, onFailure, localShare });
    return { store, kind: 'memory', close: async () => {} };
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
  new WorkerProcess(new Dialogue(process as Port), process.argv.includes('store'));
  sendHeartbeats();
}
