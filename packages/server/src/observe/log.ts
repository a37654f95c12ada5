/** The log: lines of JSON on standard output. What a flood would repeat is summed up. */
import { type DestinationStream, type Logger, pino } from 'pino';
import { type CheckResult, type Clock, systemClock } from 'sluice';
import type { DecisionListener, FailureListener } from '../decision-service.ts';
import type { Settings } from '../settings.ts';
import { LogOutput, standardOutput } from './log-output.ts';

export type { Logger };

/** Whoever has these is somebody else, so they are cut out wherever they turn up. */
const SECRETS = ['authorization', 'cookie', 'set-cookie', 'adminToken', 'password', 'token'];

const REDACTED = SECRETS.flatMap((name) =>
  ['', '*', 'headers', '*.headers'].map((place) => `${place}["${name}"]`),
);

/** `redis://user:password@host` keeps its host. */
const withoutLogin = (text: string): string => text.replace(/\/\/[^\s/]*@/g, '//***@');

/**
 * What an error says, and nothing that hangs on it: a client's error carries the command that
 * failed, and that may be the one with the password.
 */
function errorFields(error: unknown): object {
  if (!(error instanceof Error)) return { message: withoutLogin(String(error)) };
  const { name, message, stack, cause } = error;
  const { code } = error as { code?: unknown };
  return {
    type: name,
    message: withoutLogin(message),
    ...(code !== undefined && { code }),
    ...(cause instanceof Error && { cause: withoutLogin(cause.message) }),
    stack: withoutLogin(stack ?? ''),
  };
}

/** Default for `destination`: standard output, asynchronous and bounded. */
export function makeLog(
  { logLevel }: Pick<Settings, 'logLevel'>,
  destination: DestinationStream = standardOutput(),
): Logger {
  const options = {
    level: logLevel,
    base: { name: 'sluice' },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: { paths: REDACTED, censor: '***' },
    serializers: { err: errorFields, error: errorFields },
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const log = pino(options, destination);
  if (destination instanceof LogOutput) {
    destination.onDropped = (dropped) => log.warn({ dropped }, 'log lines dropped');
  }
  return log;
}

/** What the client of the store tells about its connection and its server. */
export const storeListeners = (log: Logger) => ({
  onWarning: ({ code, message }: { readonly code: string; readonly message: string }): void =>
    log.warn({ code }, message),
  onConnection: (state: 'up' | 'down', error?: Error): void => {
    if (state === 'up') log.info('connected to the store');
    else log.error(error === undefined ? {} : { err: error }, 'not connected to the store');
  },
});

const SECOND_MS = 1000;

export interface FewLinesOptions {
  /** How many of each period are logged in full. */
  readonly most: number;
  readonly periodMs: number;
  readonly message: string;
  /** What the line says that has the number of the others. */
  readonly others: string;
}

/** Logs a few of each period in full, and how many more there were. */
export class FewLines {
  readonly #log: Logger;
  readonly #options: FewLinesOptions;
  readonly #clock: Clock;
  #logged = 0;
  #suppressed = 0;
  #cancel: (() => void) | undefined = undefined;

  constructor(log: Logger, options: FewLinesOptions, clock: Clock = systemClock) {
    this.#log = log;
    this.#options = options;
    this.#clock = clock;
  }

  /** Whether it is one of the few that are logged; if not, it is counted. */
  isNext(): boolean {
    const { most, periodMs } = this.#options;
    this.#cancel ??= this.#clock.schedule(periodMs, () => this.flush());
    if (this.#logged < most) return true;
    this.#suppressed++;
    return false;
  }

  write(fields: object): void {
    this.#logged++;
    this.#log.info(fields, this.#options.message);
  }

  /** Ends the period: says how many were not logged. */
  flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#logged = 0;
    const suppressed = this.#suppressed;
    this.#suppressed = 0;
    if (suppressed > 0) this.#log.info({ suppressed }, this.#options.others);
  }
}

/** Logs a few denials of each second in full, and how many more there were. */
export class DenialLog {
  readonly #lines: FewLines;

  constructor(log: Logger, { logDenials }: Pick<Settings, 'logDenials'>, clock = systemClock) {
    const texts = { message: 'denied', others: 'more were denied' };
    this.#lines = new FewLines(log, { most: logDenials, periodMs: SECOND_MS, ...texts }, clock);
  }

  /** For `desk.watch`. Whom the limits in shadow would deny is in the metrics. */
  readonly watch: DecisionListener = ({ allowed, result }) => {
    if (!allowed && result !== undefined) this.#denied(result);
  };

  #denied({ policy, key, cost, remaining, retryAfterMs }: CheckResult): void {
    if (!this.#lines.isNext()) return;
    // An infinite wait is none that could be logged.
    const wait = Number.isFinite(retryAfterMs) ? { retryAfterMs } : {};
    this.#lines.write({ policy, key, cost, remaining, ...wait });
  }

  /** Ends the second: says how many were not logged. */
  flush(): void {
    this.#lines.flush();
  }
}

/** A store that fails now and then is told about once a second at the most. */
export class StoreLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  #isAway = false;
  #lastAwayMs = 0;

  constructor(log: Logger, clock: Clock = systemClock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** For `desk.watch`. */
  readonly watch: DecisionListener = ({ result }) => {
    if (result?.degraded !== undefined) this.#away(result.degraded);
    // A denial from this process's memory says nothing about the store.
    else if (this.#isAway && result !== undefined && !result.cached) this.#back();
  };

  readonly onFailure: FailureListener = () => this.#away({ action: 'throw' });

  #away(degraded: object): void {
    this.#lastAwayMs = this.#clock.now();
    if (this.#isAway) return;
    this.#isAway = true;
    this.#log.error(degraded, 'the store does not answer');
  }

  #back(): void {
    const quietMs = this.#clock.now() - this.#lastAwayMs;
    if (quietMs >= 0 && quietMs < SECOND_MS) return;
    this.#isAway = false;
    this.#log.info('the store answers again');
  }
}
