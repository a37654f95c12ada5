/**
 * Attempts to sign in are limited by our own engine, each address for itself: whoever guesses must
 * not keep those out who know the token. While many guess wrong, each address gets fewer.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import {
  type Clock,
  createLimiter,
  type Decision,
  memoryStore,
  type SyncLimiter,
  systemClock,
} from 'sluice';
import { reportOf } from 'sluice/engine';
import { type AddressReader, clientAddress, headerForms, retryAfter } from 'sluice/http';
import { type Exchange, HttpError } from '../http/exchange.ts';
import { FewLines, type Logger } from '../observe/log.ts';
import type { Settings } from '../settings.ts';
import { auditLine } from './audit.ts';

export const ATTEMPTS_PER_MINUTE = 10;
/** How many wrong ones of all addresses together are no flood yet. */
export const FAILURES_PER_MINUTE = 100;

const WINDOW_MS = 60_000;
const POLICIES = { attempts: `${ATTEMPTS_PER_MINUTE}/1m`, failures: `${FAILURES_PER_MINUTE}/1m` };
const EVERYBODY = 'everybody';
/** In a flood two attempts are all. */
const COST_IN_FLOOD = ATTEMPTS_PER_MINUTE / 2;
/** Who attempts beyond them pushes out those who came first. */
const MOST_ADDRESSES = 10_000;
/** A minute's failures that are logged one by one. */
const MOST_LINES = 10;

type AttemptSettings = Pick<Settings, 'trustProxy' | 'forwardedHeader' | 'ipv6Prefix'>;

export class SignIns {
  readonly #limiter: SyncLimiter<typeof POLICIES>;
  readonly #addressOf: AddressReader;
  readonly #failures: FewLines;

  constructor(settings: AttemptSettings, log: Logger, clock: Clock = systemClock) {
    const { trustProxy, forwardedHeader, ipv6Prefix } = settings;
    const store = memoryStore({ maxKeys: MOST_ADDRESSES });
    this.#limiter = createLimiter({ policies: POLICIES, store, clock });
    this.#addressOf = clientAddress({
      ...{ forwardedHeader, ipv6Prefix },
      ...(trustProxy !== undefined && { trustProxy }),
      onWarning: ({ code, message }) => log.warn({ code }, message),
    });
    const texts = { message: 'sign-in failed', others: 'more attempts to sign in failed' };
    this.#failures = new FewLines(log, { most: MOST_LINES, periodMs: WINDOW_MS, ...texts }, clock);
  }

  /** Counts an attempt; throws a 429 if there were too many from there. */
  attempt(exchange: Exchange): void {
    const { socket } = exchange.request;
    const address = this.#addressOf(socket.remoteAddress, (name) => exchange.header(name));
    const isFlood = !this.#limiter.peekSync('failures', EVERYBODY, { cost: 1 }).allowed;
    const cost = isFlood ? COST_IN_FLOOD : 1;
    const decision = this.#limiter.checkSync('attempts', address, { cost });
    if (decision.allowed) return;
    this.#log(exchange);
    const message = `Expected at most ${ATTEMPTS_PER_MINUTE} attempts a minute, got more`;
    throw new HttpError(429, 'ERR_TOO_MANY_ATTEMPTS', message, undefined, fieldsOf(decision));
  }

  /** Counts an attempt that was wrong. */
  failed(exchange: Exchange): void {
    this.#limiter.checkSync('failures', EVERYBODY);
    this.#log(exchange);
  }

  #log(exchange: Exchange): void {
    if (!this.#failures.isNext()) return;
    this.#failures.write(auditLine(exchange, { action: 'sign-in', ok: false }));
  }

  /** Says how many failures were not logged. */
  close(): void {
    this.#failures.flush();
  }
}

/** Whatever form is set for others: the page has to know how long to wait. */
function fieldsOf(decision: Decision): OutgoingHttpHeaders {
  const report = reportOf(decision, decision.limits, () => WINDOW_MS);
  return Object.fromEntries([...headerForms.draft(report), retryAfter(report)!]);
}
