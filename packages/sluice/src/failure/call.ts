/** One call to the store, with its deadline, its result and its effect on the circuit breakers. */
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

/** The state that all calls in flight share. */
export interface InFlight {
  readonly domains: FailureDomains;
  readonly deadlines: Deadlines;
}

/**
 * A call to the store. A class with methods, not closures: there is one instance per decision, and
 * each closure would allocate another object.
 */
export abstract class Call<T> extends Deadline implements Recipient<T> {
  protected domains!: readonly FailureDomain[];
  /** The command that carries the call; the last one if it was sent again. */
  private command: SentCommand | undefined = undefined;
  /** The commands of a call with several domains, by domain. */
  private commands: Map<number, SentCommand> | undefined = undefined;
  private isDone = false;
  isExpired = false;
  private fallbackResult: T | undefined = undefined;
  private resolve!: (result: T) => void;
  private reject!: (error: unknown) => void;

  constructor(protected readonly inFlight: InFlight) {
    super();
  }

  /** Returns the failure domains that the call needs. If this method throws, the call rejects. */
  protected abstract findDomains(): readonly FailureDomain[];

  /** Sends the call to the store, which then calls `succeeded` or `failed`. */
  protected abstract send(): void;

  /** Returns the result of a call for which the store returned none. May throw. */
  protected abstract fallBack(reason: Reason, cause: unknown, notDone: boolean): T;

  /**
   * Handles a result that the store returns after the deadline. `fallback` is the result that the
   * caller has received, or undefined if the fallback threw.
   */
  protected late(_result: T, _fallback: T | undefined): void {}

  /** Returns whether a result shows that the store works, is broken, or neither. */
  protected evidence(_result: T): 'works' | 'nothing' | 'broken' {
    return 'works';
  }

  run(): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
      // `start` throws only for an error of the caller. Only this promise rejects then.
      this.start();
    });
  }

  private start(): void {
    const { inFlight } = this;
    this.domains = this.findDomains();
    const reason = inFlight.domains.enter(this, this.domains);
    if (reason !== undefined) {
      this.useFallback(reason, undefined, true);
      return;
    }
    inFlight.deadlines.start(this);
    try {
      this.send();
    } catch (error) {
      // Nothing was sent, so this is no failure of the store.
      if (this.isDone) return;
      this.end('nothing');
      this.reject(error);
    }
  }

  /** Calls a method of the store that returns a promise. */
  protected await(work: () => Promise<T>): void {
    let result: Promise<T>;
    try {
      result = work();
    } catch (error) {
      // Nothing was sent, so this is no failure of the store.
      this.end('nothing');
      this.useFallback('error', error, true);
      return;
    }
    try {
      result.then(
        (value) => this.succeeded(value),
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

  succeeded(result: T): void {
    if (this.isDone) {
      if (this.isExpired) this.handleLate(result);
      return;
    }
    const evidence = this.evidence(result);
    if (evidence === 'broken') {
      this.failed(new TypeError('Expected one decision for each check'));
      return;
    }
    this.end(evidence === 'works' ? 'worked' : 'nothing');
    this.resolve(result);
  }

  private handleLate(result: T): void {
    this.isExpired = false;
    try {
      this.late(result, this.fallbackResult);
    } catch {
      // Ignored: the reply is malformed, and no caller waits for it.
    }
  }

  failed(error: unknown): void {
    if (this.isDone) return;
    const { isOfKey, notSent } = (error ?? {}) as { isOfKey?: boolean; notSent?: boolean };
    // An error that concerns one key or one caller must not open the breaker for all others.
    this.end(isOfKey || notSent ? 'nothing' : 'failed');
    if (notSent) this.reject((error as Error).cause);
    else this.useFallback('error', error, false);
  }

  override expire(): void {
    this.isDone = true;
    this.isExpired = true;
    this.report('failed');
    this.useFallback('timeout', undefined, false);
  }

  private useFallback(reason: Reason, cause: unknown, notDone: boolean): void {
    try {
      this.fallbackResult = this.fallBack(reason, cause, notDone);
      this.resolve(this.fallbackResult);
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

  /** Returns the outcome to report for a command. Several calls may share it, and fail with it. */
  private outcomeIn(command: SentCommand | undefined, outcome: CallOutcome): CallOutcome {
    if (outcome === 'nothing' || command === undefined) {
      // If commands were sent to other domains only, this domain has not failed.
      return this.commands === undefined ? outcome : 'nothing';
    }
    if (command.outcome === 'failed') return 'failed';
    const isPart = this.commands !== undefined;
    return isPart && command.outcome === 'replied' ? 'worked' : outcome;
  }
}
