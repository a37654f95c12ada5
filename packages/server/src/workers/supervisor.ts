/**
 * The first process, where several serve: it starts the others and replaces those that die, and it
 * owns the embedded store. Serving nobody itself, it is always there to decide.
 */
import { memoryStore, systemClock } from 'sluice';
import type { ReloadReport } from '../configuration.ts';
import { EvictionLog } from '../observe/eviction-log.ts';
import type { Logger } from '../observe/log.ts';
import { type Listen, listenText, type Settings } from '../settings.ts';
import { Doorman } from './doorman.ts';
import { type LogLines, Member } from './member.ts';
import {
  type CrewQuestion,
  DEADLINE_MS,
  type Doors,
  type ReloadOutcome,
  type WordKept,
  type WordName,
} from './messages.ts';
import { Owner } from './owner.ts';
import { type Heard, Truth, type TruthOptions } from './truth.ts';

/** Whoever served so long before it died is replaced at once. */
const STEADY_MS = 10_000;
/** The others after a pause, which doubles each time. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** When stopping, those who wait to be let in are let in for so long at the most. */
const LISTEN_MS = 1000;

export interface WorkersOptions extends TruthOptions {
  /** How many, among other things. */
  readonly settings: Settings;
  /** Takes what workers log. Default: standard output. */
  readonly logTo?: LogLines;
}

/** The place of one worker after the other. */
interface Slot {
  readonly number: number;
  member: Member | undefined;
  /** How many have died here young, one after the other. */
  failures: number;
  /** Calls off what would replace a worker. */
  cancel(): void;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #logTo: LogLines | undefined;
  readonly #truth: Truth;
  readonly #owner: Owner | undefined;
  readonly #evictionLog: EvictionLog | undefined;
  readonly #slots: readonly Slot[];
  readonly #doorman = new Doorman(() => this.#members.filter(({ isServing }) => isServing));
  #doors: Doors = {};
  #isClosing = false;

  private constructor({ settings, log, logTo }: WorkersOptions, truth: Truth) {
    const { workers, store, maxKeys } = settings;
    this.#settings = workerSettings(settings);
    this.#log = log;
    this.#logTo = logTo;
    this.#truth = truth;
    // Redis is asked by each worker itself.
    const owned = store === 'memory' ? memoryStore({ maxKeys }) : undefined;
    this.#owner = owned && new Owner(owned);
    this.#evictionLog = owned && new EvictionLog(log, owned);
    this.#slots = Array.from({ length: workers }, (_, at) => ({
      number: at + 1,
      member: undefined,
      failures: 0,
      cancel: () => {},
    }));
  }

  /** Resolves when all workers serve; if one cannot, none does. */
  static async start(options: WorkersOptions): Promise<Supervisor> {
    const truth = await Truth.open(options);
    const supervisor = new Supervisor(options, truth);
    await supervisor.#openDoors();
    await supervisor.#startAll();
    supervisor.#evictionLog?.start();
    return supervisor;
  }

  get http(): Listen {
    return this.#doors.http!;
  }

  get grpc(): Listen | undefined {
    return this.#doors.grpc;
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

  get #members(): readonly Member[] {
    return this.#slots.flatMap(({ member }) => member ?? []);
  }

  /** Whoever comes before the workers serve has to wait. */
  async #openDoors(): Promise<void> {
    const { listen, grpc } = this.#settings;
    const onError = (err: Error): void => this.#log.error({ err }, 'a connection failed');
    try {
      this.#doors = { http: await this.#doorman.open('http', listen, onError) };
      if (grpc === undefined) return;
      this.#doors = { ...this.#doors, grpc: await this.#doorman.open('grpc', grpc, onError) };
    } catch (error) {
      await this.#doorman.close(0);
      throw error;
    }
  }

  async #startAll(): Promise<void> {
    const starting = this.#slots.map((slot) => this.#employ(slot));
    try {
      await Promise.all(starting);
    } catch (error) {
      this.kill();
      await Promise.all([this.#doorman.close(0), ...this.#members.map(({ gone }) => gone)]);
      throw error;
    }
  }

  async #employ(slot: Slot): Promise<void> {
    const member = new Member(slot.number, this.#logTo);
    slot.member = member;
    void member.gone.then(({ code, signal }) => this.#departed(slot, member, code, signal));
    this.#owner?.serve(member.storeChannel, (err) => {
      this.#log.error({ err, worker: slot.number }, 'a worker asked for what makes no sense');
      member.kill();
    });
    const { dialogue } = member;
    dialogue.answer('reload', () => this.#reload(member));
    dialogue.answer('override', (body) => this.#keep('override', this.#truth.override(body)));
    dialogue.answer('shadow', (body) => this.#keep('shadow', this.#truth.shadow(body)));
    dialogue.answer('gather', (body) => this.#gather(body as CrewQuestion));
    try {
      const common = { settings: this.#settings, doors: this.#doors, worker: slot.number };
      await member.start({ ...common, ...this.#truth.order() });
      this.#doorman.showWaiting();
    } catch (error) {
      member.kill();
      throw error;
    }
  }

  #departed(slot: Slot, member: Member, code: number | null, signal: string | null): void {
    slot.member = undefined;
    if (this.#isClosing) return;
    slot.failures = member.ageMs >= STEADY_MS ? 0 : slot.failures + 1;
    const pauseMs =
      slot.failures === 0
        ? 0
        : Math.min(FIRST_PAUSE_MS * 2 ** (slot.failures - 1), LONGEST_PAUSE_MS);
    const { pid } = member;
    this.#log.error({ worker: slot.number, pid, code, signal, pauseMs }, 'a worker died');
    slot.cancel = systemClock.schedule(pauseMs, () => void this.#replace(slot));
  }

  async #replace(slot: Slot): Promise<void> {
    try {
      await this.#employ(slot);
      this.#log.info({ worker: slot.number, pid: slot.member?.pid }, 'a worker was replaced');
    } catch (err) {
      if (!this.#isClosing) this.#log.error({ err, worker: slot.number }, 'a worker cannot serve');
    }
  }

  /** Reads the files once, for all; if anything is wrong with them, everybody goes on as before. */
  async reload(): Promise<ReloadReport> {
    const outcome = await this.#reload(undefined);
    const { fingerprint } = outcome;
    if ('config' in outcome) return { ok: true, problems: [], fingerprint };
    return { ok: false, problems: outcome.problems, fingerprint };
  }

  /** Whoever asked gets the outcome as the answer. */
  async #reload(asker: Member | undefined): Promise<ReloadOutcome> {
    const outcome = await this.#truth.reload();
    await this.#tell('configure', outcome, asker);
    return outcome;
  }

  async #keep(name: WordName, { word, refusal }: Heard): Promise<WordKept> {
    // Whoever made the change is told too, because another's may have come first.
    await this.#tell(name, word);
    if (refusal !== undefined) throw refusal;
    return { isSaved: await this.#truth.saved() };
  }

  async #gather({ question, detail }: CrewQuestion): Promise<readonly unknown[]> {
    const serving = this.#members.filter(({ isServing }) => isServing);
    const asked = serving.map(({ dialogue }) =>
      dialogue.ask('question', { question, detail }, DEADLINE_MS.question),
    );
    const results = await Promise.allSettled(asked);
    return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** Waits for those who serve; whoever is just starting hears it before it does. */
  async #tell(what: 'configure' | WordName, word: unknown, except?: Member): Promise<void> {
    const told = this.#members
      .filter((member) => member !== except)
      .map(async ({ dialogue, isServing, slot }) => {
        const answer = dialogue.ask(what, word, DEADLINE_MS.word).catch((err) => {
          if (isServing) this.#log.warn({ err, worker: slot }, `${what}: a worker did not confirm`);
        });
        if (isServing) await answer;
      });
    await Promise.all(told);
  }

  /** Has all answer what is in flight, then lets everything go. */
  async close(): Promise<void> {
    this.#stopReplacing();
    const { drainMs } = this.#settings;
    await this.#doorman.close(Math.min(LISTEN_MS, drainMs / 2));
    await Promise.all(this.#members.map((member) => member.leave(drainMs)));
    this.#evictionLog?.stop();
    await this.#truth.saved();
  }

  /** Ends all workers at once. */
  kill(): void {
    this.#stopReplacing();
    this.#evictionLog?.stop();
    for (const member of this.#members) member.kill();
  }

  #stopReplacing(): void {
    this.#isClosing = true;
    for (const slot of this.#slots) slot.cancel();
  }
}

/**
 * What a setting says of the service is shared out: when Redis is away each worker admits its part,
 * and logs its part. The file of the overrides is the supervisor's.
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
