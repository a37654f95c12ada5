/** One call that waits for the store, with its deadline and what becomes of its answer. */
import type { Degraded } from '../decision.ts';
import type { Recipient } from '../store.ts';
import type { Breaker } from './breaker.ts';
import { Deadline, type Deadlines } from './deadlines.ts';

export type Reason = Degraded['reason'];

/** What calls in flight have in common. */
export interface InFlight {
  count: number;
  readonly most: number;
  readonly breaker: Breaker;
  readonly deadlines: Deadlines;
}

/** Methods, not functions: there is one for every decision, and each function is an object. */
export abstract class Call<T> extends Deadline implements Recipient<T> {
  private kind: 'call' | 'probe' | undefined = undefined;
  private isDone = false;
  private told: T | undefined = undefined;
  private resolve!: (answer: T) => void;
  private reject!: (error: unknown) => void;

  constructor(private readonly inFlight: InFlight) {
    super();
  }

  /** Asks the store, which then calls `answered` or `failed`. */
  protected abstract ask(): void;

  /** The answer when the store has none; may throw. */
  protected abstract instead(reason: Reason, cause: unknown): T;

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
      this.start();
    });
  }

  private start(): void {
    const { inFlight } = this;
    if (inFlight.count >= inFlight.most) {
      this.giveUp('overload', undefined);
      return;
    }
    this.kind = inFlight.breaker.admits();
    if (this.kind === undefined) {
      this.giveUp('open', undefined);
      return;
    }
    inFlight.count++;
    inFlight.deadlines.start(this);
    try {
      this.ask();
    } catch (error) {
      this.failed(error);
    }
  }

  protected await(answer: Promise<T>): void {
    answer.then(
      (value) => this.answered(value),
      (error) => this.failed(error),
    );
  }

  answered(answer: T): void {
    if (this.isDone) {
      this.discard(answer);
      return;
    }
    const proof = this.proof(answer);
    if (proof === 'broken') {
      this.failed(new TypeError('Expected one decision for each check'));
      return;
    }
    this.end();
    const { breaker } = this.inFlight;
    if (proof === 'works') breaker.succeeded(this.kind!);
    else breaker.passedOver(this.kind!);
    this.resolve(answer);
  }

  private discard(answer: T): void {
    try {
      this.late(answer, this.told);
    } catch {
      // An answer that cannot be read, and for which nobody waits.
    }
  }

  failed(error: unknown): void {
    if (this.isDone) return;
    this.end();
    const { breaker } = this.inFlight;
    // What is wrong with one key must not take the store away from all others.
    if ((error as { isOfKey?: boolean } | undefined)?.isOfKey) breaker.passedOver(this.kind!);
    else breaker.failed(this.kind!);
    this.giveUp('error', error);
  }

  override expire(): void {
    this.isDone = true;
    this.inFlight.count--;
    this.inFlight.breaker.failed(this.kind!);
    this.giveUp('timeout', undefined);
  }

  private giveUp(reason: Reason, cause: unknown): void {
    try {
      this.told = this.instead(reason, cause);
      this.resolve(this.told);
    } catch (error) {
      this.reject(error);
    }
  }

  private end(): void {
    this.isDone = true;
    this.inFlight.count--;
    this.inFlight.deadlines.end(this);
  }
}
