/** One call that waits for the store, with its deadline and what becomes of its answer. */
import type { Degraded } from '../decision.ts';
import type { Recipient, SentCommand } from '../store.ts';
import { Deadline, type Deadlines } from './deadlines.ts';
import {
  type CallOutcome,
  domainNumber,
  type FailureDomain,
  type FailureDomains,
} from './failure-domains.ts';

export type Reason = Degraded['reason'];

/** What calls in flight have in common. */
export interface InFlight {
  readonly domains: FailureDomains;
  readonly deadlines: Deadlines;
}

/** Methods, not functions: there is one for every decision, and each function is an object. */
export abstract class Call<T> extends Deadline implements Recipient<T> {
  protected domains!: readonly FailureDomain[];
  /** The command that carries it; the last one if it was sent again. */
  private command: SentCommand | undefined = undefined;
  /** The commands of a call with several domains, by domain. */
  private commands: Map<number, SentCommand> | undefined = undefined;
  private isDone = false;
  private isExpired = false;
  private told: T | undefined = undefined;
  private resolve!: (answer: T) => void;
  private reject!: (error: unknown) => void;

  constructor(protected readonly inFlight: InFlight) {
    super();
  }

  /** The failure domains that it needs. May throw, which rejects the call. */
  protected abstract findDomains(): readonly FailureDomain[];

  /** Asks the store, which then calls `answered` or `failed`. */
  protected abstract ask(): void;

  /** The answer when the store has none; may throw. */
  protected abstract instead(reason: Reason, cause: unknown, notDone: boolean): T;

  /** Told of an answer that came too late; what was `told` instead is undefined if that threw. */
  protected late(_answer: T, _told: T | undefined): void {}

  /** What an answer says about the store: that it works, nothing, or that it is broken. */
  protected proof(_answer: T): 'works' | 'nothing' | 'broken' {
    return 'works';
  }

  run(): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      // An error of the caller is thrown here and rejects this call alone.
      this.start();
    });
  }

  private start(): void {
    const { inFlight } = this;
    this.domains = this.findDomains();
    const refusal = inFlight.domains.enter(this, this.domains);
    if (refusal !== undefined) {
      this.giveUp(refusal, undefined, true);
      return;
    }
    inFlight.deadlines.start(this);
    try {
      this.ask();
    } catch (error) {
      // Thrown before anything was sent, so it says nothing about the store.
      if (this.isDone) return;
      this.end('nothing');
      this.reject(error);
    }
  }

  /** Calls a method of the store that returns a promise. */
  protected await(work: () => Promise<T>): void {
    let answer: Promise<T>;
    try {
      answer = work();
    } catch (error) {
      // It was not sent, so it says nothing about those that are.
      this.end('nothing');
      this.giveUp('error', error, true);
      return;
    }
    try {
      answer.then(
        (value) => this.answered(value),
        (error) => this.failed(error),
      );
    } catch (error) {
      this.failed(error);
    }
  }

  sent(command: SentCommand): void {
    if (this.domains.length === 1) this.command = command;
    else {
      this.commands ??= new Map();
      this.commands.set(domainNumber(command.domain), command);
    }
  }

  answered(answer: T): void {
    if (this.isDone) {
      if (this.isExpired) this.discard(answer);
      return;
    }
    const proof = this.proof(answer);
    if (proof === 'broken') {
      this.failed(new TypeError('Expected one decision for each check'));
      return;
    }
    this.end(proof === 'works' ? 'worked' : 'nothing');
    this.resolve(answer);
  }

  private discard(answer: T): void {
    this.isExpired = false;
    try {
      this.late(answer, this.told);
    } catch {
      // An answer that cannot be read, and for which nobody waits.
    }
  }

  failed(error: unknown): void {
    if (this.isDone) return;
    const { isOfKey, notSent } = (error ?? {}) as { isOfKey?: boolean; notSent?: boolean };
    // An error of one key, or of one caller, must not take the store away from all others.
    this.end(isOfKey || notSent ? 'nothing' : 'failed');
    if (notSent) this.reject((error as Error).cause);
    else this.giveUp('error', error, false);
  }

  override expire(): void {
    this.isDone = true;
    this.isExpired = true;
    this.report('failed');
    this.giveUp('timeout', undefined, false);
  }

  private giveUp(reason: Reason, cause: unknown, notDone: boolean): void {
    try {
      this.told = this.instead(reason, cause, notDone);
      this.resolve(this.told);
    } catch (error) {
      this.reject(error);
    }
  }

  private end(outcome: CallOutcome): void {
    this.isDone = true;
    this.inFlight.deadlines.end(this);
    this.report(outcome);
  }

  private report(outcome: CallOutcome): void {
    const { domains } = this;
    this.inFlight.domains.leave(domains);
    for (let place = 0; place < domains.length; place++) {
      const domain = domains[place];
      const command = this.command ?? this.commands?.get(domain.number);
      domain.ended(this, this.outcomeIn(command, outcome), command);
    }
  }

  /** A neighbour in the same command may have found out more than this call. */
  private outcomeIn(command: SentCommand | undefined, outcome: CallOutcome): CallOutcome {
    if (outcome === 'nothing' || command === undefined) {
      // A domain that no command was sent to has not failed if another one was sent to.
      return this.commands === undefined ? outcome : 'nothing';
    }
    if (command.outcome === 'failed') return 'failed';
    const isPart = this.commands !== undefined;
    return isPart && command.outcome === 'replied' ? 'worked' : outcome;
  }
}
