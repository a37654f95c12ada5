/** A worker: the whole service in a process of its own, but for what the supervisor keeps. */
import { Socket } from 'node:net';
import { SluiceError } from 'sluice';
import { isRecord } from 'sluice/engine';
import { type Config, ConfigError } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { Desk } from '../desk.ts';
import type { Door, DoorName } from '../http/door.ts';
import { makeLog, storeListeners } from '../observe/log.ts';
import { flushLog } from '../observe/log-output.ts';
import { type Service, startService } from '../service.ts';
import type { Listen } from '../settings.ts';
import { shadowWordOf } from '../shadow-words.ts';
import { type OpenStore, openStore } from '../store-url.ts';
import type { Crew } from './crew.ts';
import { Dialogue, type Port } from './dialogue.ts';
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
import { OwnerStore } from './owner-store.ts';
import { plain, wordOf } from './truth.ts';

/** Connections that the supervisor has taken. */
class WorkerDoor implements Door {
  readonly #doors: Doors;
  readonly #takers = new Map<unknown, (socket: Socket) => void>();

  constructor(doors: Doors) {
    this.#doors = doors;
    process.on('message', (message: unknown, socket: unknown) => {
      if (!(socket instanceof Socket) || !isRecord(message)) return;
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
  /** What the supervisor has read, for the reload that takes it over. */
  #outcome: ReloadOutcome | undefined = undefined;
  #isAsking = false;
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
    const { overrides, shadowWords } = this.#order;
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
  async configure(outcome: ReloadOutcome): Promise<void> {
    this.#outcome = outcome;
    // A reload that was asked for here takes the later of the two.
    if (!this.#isAsking) await this.#configuration!.reload();
  }

  /** In the place of reading files. */
  readonly load = async (): Promise<Config> => {
    const outcome = this.#toldOutcome() ?? (await this.#askForReload());
    if ('problems' in outcome) throw new ConfigError(outcome.problems);
    return outcome.config;
  };

  #toldOutcome(): ReloadOutcome | undefined {
    const outcome = this.#outcome;
    this.#outcome = undefined;
    return outcome;
  }

  async #askForReload(): Promise<ReloadOutcome> {
    this.#isAsking = true;
    const asked = this.#dialogue.ask('reload', undefined, DEADLINE_MS.reload);
    const outcome = (await asked.catch((error: Error) => error)) as ReloadOutcome | Error;
    this.#isAsking = false;
    const told = this.#toldOutcome();
    if (!(outcome instanceof Error)) {
      return told !== undefined && told.number > outcome.number ? told : outcome;
    }
    if (told === undefined) throw outcome;
    return told;
  }
}

class WorkerProcess {
  readonly #dialogue: Dialogue;
  #crew: WorkerCrew | undefined = undefined;
  #service: Promise<Service> | undefined = undefined;
  #isLeaving = false;

  constructor(dialogue: Dialogue) {
    this.#dialogue = dialogue;
    dialogue.answer('start', (order) => this.#start(order as StartOrder));
    dialogue.answer('configure', (outcome) => this.#whenServing(() => this.#configure(outcome)));
    dialogue.answer('override', (word) => this.#whenServing(() => this.#crew!.override(word)));
    dialogue.answer('shadow', (word) => this.#whenServing(() => this.#crew!.shadow(word)));
    dialogue.answer('question', (body) => this.#crew!.answerTo(body as CrewQuestion));
    dialogue.answer('leave', () => this.#leave());
  }

  async #start(order: StartOrder): Promise<void> {
    const { settings, config, worker } = order;
    const log = makeLog(settings).child({ worker });
    const crew = new WorkerCrew(this.#dialogue, order, new WorkerDoor(order.doors));
    const isOwned = settings.store === 'memory';
    const open = isOwned ? this.#ownedStore() : openStore(settings, storeListeners(log));
    this.#crew = crew;
    // Known at once, because what comes while it starts waits for it.
    this.#service = Promise.resolve(open).then((store) =>
      startService({ settings, store, log, config, load: crew.load, crew }),
    );
    await this.#service;
  }

  /** What comes while it starts has to wait, in order. */
  async #whenServing(work: () => unknown): Promise<unknown> {
    await this.#service;
    return work();
  }

  #configure(outcome: unknown): Promise<void> {
    return this.#crew!.configure(outcome as ReloadOutcome);
  }

  /** Without its owner nothing can be decided, so another worker has to do. */
  #ownedStore(): OpenStore {
    const channel = new Socket({ fd: STORE_FD, readable: true, writable: true });
    channel.on('close', () => {
      if (!this.#isLeaving) process.exit(1);
    });
    return { store: new OwnerStore(channel), kind: 'memory', close: async () => {} };
  }

  async #leave(): Promise<void> {
    this.#isLeaving = true;
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
  new WorkerProcess(new Dialogue(process as Port));
}
