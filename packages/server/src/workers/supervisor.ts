/**
 * The first process, where several serve: it starts the others, kills those that hang, replaces
 * those that exit, and deals out connections. It decides nothing: with the embedded store another
 * process does.
 */
import type { ReloadOptions, ReloadReport } from '../configuration.ts';
import { EvictionLog } from '../observe/eviction-log.ts';
import type { Logger } from '../observe/log.ts';
import { type Listen, listenText, type Settings } from '../settings.ts';
import { Doorman } from './doorman.ts';
import { Watchdog } from './heartbeat.ts';
import { type LogLines, Member } from './member.ts';
import {
  type CrewQuestion,
  DEADLINE_MS,
  type Doors,
  type ReloadOutcome,
  type WordKept,
  type WordName,
} from './messages.ts';
import { MetricsTotals } from './metrics-totals.ts';
import { Place } from './place.ts';
import { StoreHost } from './store-host.ts';
import { type Heard, Truth, type TruthOptions } from './truth.ts';

/** When stopping, connections that wait to be accepted are accepted for this long at the most. */
const LISTEN_MS = 1000;

export interface WorkersOptions extends TruthOptions {
  /** How many, among other things. */
  readonly settings: Settings;
  /** Takes what workers log. Default: standard output. */
  readonly logTo?: LogLines;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #log: Logger;
  readonly #logTo: LogLines | undefined;
  readonly #truth: Truth;
  /** Undefined with Redis, which each worker asks itself. */
  readonly #store: StoreHost | undefined;
  readonly #evictionLog: EvictionLog | undefined;
  readonly #places: readonly Place<Member>[];
  readonly #doorman = new Doorman(() => this.#members);
  readonly #watchdog = new Watchdog(() => [...this.#members, ...(this.#store?.children ?? [])]);
  readonly #metrics: MetricsTotals<Member>;
  #doors: Doors = {};
  /** The reload that is under way, and the one after it that all further requests share. */
  #reloading: Promise<unknown> = Promise.resolve();
  #nextReload: Promise<ReloadOutcome> | undefined = undefined;
  #isNextIfChanged = true;

  private constructor({ settings, log, logTo }: WorkersOptions, truth: Truth) {
    const { workers, store, maxKeys } = settings;
    this.#settings = workerSettings(settings);
    this.#log = log;
    this.#logTo = logTo;
    this.#truth = truth;
    this.#metrics = new MetricsTotals<Member>((member) =>
      member.dialogue.ask('question', { question: 'metrics' }, DEADLINE_MS.question),
    );
    this.#places = Array.from({ length: workers }, (_, at) => this.#placeOf(at + 1));
    if (store !== 'memory') return;
    this.#store = new StoreHost({ maxKeys, log, members: () => this.#members });
    this.#evictionLog = new EvictionLog(log, this.#store);
  }

  /** Resolves when all workers serve; if one cannot, none does. */
  static async start(options: WorkersOptions): Promise<Supervisor> {
    const truth = await Truth.open(options);
    const supervisor = new Supervisor(options, truth);
    try {
      await supervisor.#openDoors();
      await supervisor.#startAll();
    } catch (error) {
      await truth.close();
      throw error;
    }
    supervisor.#evictionLog?.start();
    supervisor.#metrics.start(() => supervisor.#responsive);
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

  /** The process that holds the counters of the embedded store; undefined with Redis. */
  get storePid(): number | undefined {
    return this.#store?.pid;
  }

  get #members(): readonly Member[] {
    return this.#places.flatMap(({ child }) => child ?? []);
  }

  get #responsive(): readonly Member[] {
    return this.#members.filter(({ isResponsive }) => isResponsive);
  }

  /** Connections that come before the workers serve wait. */
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
    this.#watchdog.start();
    try {
      await this.#store?.start();
      await Promise.all(this.#places.map((place) => place.fill()));
    } catch (error) {
      this.kill();
      await Promise.all([this.#doorman.close(0), ...this.#members.map(({ gone }) => gone)]);
      throw error;
    }
  }

  #placeOf(slot: number): Place<Member> {
    return new Place<Member>({
      what: 'worker',
      fields: { worker: slot },
      log: this.#log,
      make: () => this.#employ(slot),
      begin: async (member) => {
        const common = { settings: this.#settings, doors: this.#doors, worker: slot };
        await member.start(
          () => this.#truth.config,
          () => ({ ...common, ...this.#truth.order() }),
        );
        this.#doorman.show();
      },
      gone: (member) => {
        this.#metrics.departed(member);
        this.#doorman.show(member.takeBack());
      },
    });
  }

  #employ(slot: number): Member {
    const isHosted = this.#store !== undefined;
    const onReady = (): void => this.#doorman.show();
    const member = new Member({ slot, logTo: this.#logTo, isHosted, onReady });
    this.#store?.serve(member);
    const { dialogue } = member;
    dialogue.answer('reload', (options) => this.#reload(options as ReloadOptions));
    dialogue.answer('override', (body) => this.#keep('override', this.#truth.override(body)));
    dialogue.answer('shadow', (body) => this.#keep('shadow', this.#truth.shadow(body)));
    dialogue.answer('gather', (body) => this.#gather(body as CrewQuestion));
    return member;
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
      const outcome = await this.#truth.reload(options);
      await this.#confirmed('configure', (member) => member.configure(outcome, this.#truth.config));
      return outcome;
    });
    this.#nextReload = next;
    this.#reloading = next.catch(() => {});
    return next;
  }

  async #keep(name: WordName, { word, refusal }: Heard): Promise<WordKept> {
    // Whoever made the change is told too, because another's may have come first.
    await this.#confirmed(name, ({ dialogue }) => dialogue.ask(name, word, DEADLINE_MS.word));
    if (refusal !== undefined) throw refusal;
    return { isSaved: await this.#truth.saved() };
  }

  async #gather({ question, detail }: CrewQuestion): Promise<readonly unknown[]> {
    if (question === 'metrics') return this.#metrics.gather(this.#responsive);
    const asked = this.#responsive.map(({ dialogue }) =>
      dialogue.ask('question', { question, detail }, DEADLINE_MS.question),
    );
    const results = await Promise.allSettled(asked);
    return results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  }

  /** Waits for the workers that serve. One that is starting confirms before it serves. */
  async #confirmed(what: string, send: (member: Member) => Promise<unknown>): Promise<void> {
    const sent = this.#members.map(async (member) => {
      const { isServing, slot } = member;
      const confirmed = send(member).catch((err) => {
        // The exit of a worker is logged by itself, and another one starts with what counts then.
        if (!isServing || this.#places[slot - 1].child !== member) return;
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
    await this.#doorman.close(Math.min(LISTEN_MS, drainMs / 2));
    await Promise.all(this.#members.map((member) => member.leave(drainMs)));
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    await this.#store?.stop();
    await this.#truth.close();
  }

  /** Ends all processes at once. */
  kill(): void {
    this.#stopReplacing();
    this.#watchdog.stop();
    this.#evictionLog?.stop();
    for (const member of this.#members) member.kill();
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
