/**
 * The calls of one limit that found too few units, in order. While a request for units is pending,
 * they wait for its reply. Otherwise a bounded number of them is decided by the store at a time.
 *
 * Without the bound, a burst would delay the replies to requests until the leases have ended when
 * they arrive. Then the store would decide all calls, and replies would stay slow.
 */
import type { CheckResult } from '../decision.ts';
import type { Recipient } from '../store.ts';

/** The number of calls that the store decides at a time. */
const MOST_AT_STORE = 64;

export type CheckRecipient = Recipient<readonly CheckResult[]>;

export interface WaitingCall {
  readonly recipient: CheckRecipient;
  /** Decides the call if units or a denial have arrived meanwhile. */
  decide(): CheckResult | undefined;
  /** Calls the store. */
  send(recipient: CheckRecipient): void;
}

export class CallQueue {
  readonly #isRequested: () => boolean;
  readonly #waiting: WaitingCall[] = [];
  readonly #atStore = new Set<CheckRecipient>();

  /** `isRequested` returns whether a request for units is pending. */
  constructor(isRequested: () => boolean) {
    this.#isRequested = isRequested;
  }

  add(call: WaitingCall): void {
    this.#waiting.push(call);
    if (this.#waiting.length === 1) this.advance();
  }

  /** Call when a request for units has ended. */
  advance(): void {
    for (let [call] = this.#waiting; call !== undefined; [call] = this.#waiting) {
      const { recipient } = call;
      const decision = recipient.isExpired ? undefined : call.decide();
      const isSent = !recipient.isExpired && decision === undefined;
      if (isSent && (this.#isRequested() || this.#isStoreBusy)) return;
      this.#waiting.shift();
      if (decision !== undefined) recipient.succeeded([decision]);
      else if (isSent) this.#send(call);
    }
  }

  get #isStoreBusy(): boolean {
    const atStore = this.#atStore;
    if (atStore.size < MOST_AT_STORE) return false;
    // The reply to an expired call may be lost.
    for (const recipient of atStore) if (recipient.isExpired) atStore.delete(recipient);
    return atStore.size >= MOST_AT_STORE;
  }

  #send({ recipient, send }: WaitingCall): void {
    this.#atStore.add(recipient);
    const ended = (): void => {
      this.#atStore.delete(recipient);
      this.advance();
    };
    send({
      sent: (command) => recipient.sent?.(command),
      succeeded(results) {
        recipient.succeeded(results);
        ended();
      },
      failed(error) {
        recipient.failed(error);
        ended();
      },
    });
  }
}
