/** The log: JSON lines on standard output. Repeated events are sampled and counted. */
import { type DestinationStream, type Logger, pino } from 'pino';
import { type CheckResult, type Clock, systemClock } from 'sluice';
import type { DecisionListener, FailureListener } from '../decision-service.ts';
import type { Settings } from '../settings.ts';
import { LogOutput, standardOutput } from './log-output.ts';

export type { Logger };

/** Names of fields and headers with credentials. Their values are redacted. */
const SECRETS = ['authorization', 'cookie', 'set-cookie', 'adminToken', 'password', 'token'];

const REDACTED = SECRETS.flatMap((name) =>
  ['', '*', 'headers', '*.headers'].map((place) => `${place}["${name}"]`),
);

/** Redacts the credentials of URLs such as `redis://user:password@host`. */
const withoutLogin = (text: string): string => text.replace(/\/\/[^\s/]*@/g, '//***@');

/**
 * Returns only the known fields of an error. Errors of Redis clients also contain the failed
 * command, which may contain the password.
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

/** Creates the log. Default for `destination`: standard output, asynchronous and bounded. */
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

/** Returns listeners that log warnings and connection changes of the store. */
export const storeListeners = (log: Logger) => ({
  onWarning: ({ code, message }: { readonly code: string; readonly message: string }): void =>
    log.warn({ code }, message),
  onConnection: (state: 'up' | 'down', error?: Error): void => {
    if (state === 'up') log.info('store connected');
    else log.error(error === undefined ? {} : { err: error }, 'store disconnected');
  },
});

const SECOND_MS = 1000;

export interface LineSamplerOptions {
  /** Maximum number of lines per period. */
  readonly maxLines: number;
  readonly periodMs: number;
  readonly message: string;
  /** Message of the line with the number of suppressed lines. */
  readonly others: string;
}

/** Logs the first lines of each period, then one line with the number of suppressed lines. */
export class LineSampler {
  readonly #log: Logger;
  readonly #options: LineSamplerOptions;
  readonly #clock: Clock;
  #logged = 0;
  #suppressed = 0;
  #cancel: (() => void) | undefined = undefined;

  constructor(log: Logger, options: LineSamplerOptions, clock: Clock = systemClock) {
    this.#log = log;
    this.#options = options;
    this.#clock = clock;
  }

  /** Returns whether the next line can be logged. If not, counts it as suppressed. */
  canWrite(): boolean {
    const { maxLines, periodMs } = this.#options;
    this.#cancel ??= this.#clock.schedule(periodMs, () => this.flush());
    if (this.#logged < maxLines) return true;
    this.#suppressed++;
    return false;
  }

  write(fields: object): void {
    this.#logged++;
    this.#log.info(fields, this.#options.message);
  }

  /** Ends the period and logs the number of suppressed lines. */
  flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#logged = 0;
    const suppressed = this.#suppressed;
    this.#suppressed = 0;
    if (suppressed > 0) this.#log.info({ suppressed }, this.#options.others);
  }
}

/** Logs the first denials of each second, and the number of further denials. */
export class DenialLog {
  readonly #lines: LineSampler;

  constructor(log: Logger, { logDenials }: Pick<Settings, 'logDenials'>, clock = systemClock) {
    const texts = { message: 'denied', others: 'more denials not logged' };
    this.#lines = new LineSampler(
      log,
      { maxLines: logDenials, periodMs: SECOND_MS, ...texts },
      clock,
    );
  }

  /** Listener for `DecisionService.watch`. Denials of shadow limits are not logged. */
  readonly watch: DecisionListener = ({ allowed, result }) => {
    if (!allowed && result !== undefined) this.#denied(result);
  };

  #denied({ policy, key, cost, remaining, retryAfterMs, blockedUntilMs }: CheckResult): void {
    if (!this.#lines.canWrite()) return;
    // An infinite wait is omitted, because JSON has no infinity.
    const wait = Number.isFinite(retryAfterMs) ? { retryAfterMs } : {};
    const block = blockedUntilMs === undefined ? {} : { blockedUntilMs };
    this.#lines.write({ policy, key, cost, remaining, ...wait, ...block });
  }

  flush(): void {
    this.#lines.flush();
  }
}

/** Logs when the store becomes unavailable and available again, at most once a second. */
export class StoreLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  #isUnavailable = false;
  #lastFailureMs = 0;

  constructor(log: Logger, clock: Clock = systemClock) {
    this.#log = log;
    this.#clock = clock;
  }

  /** Listener for `DecisionService.watch`. */
  readonly watch: DecisionListener = ({ result }) => {
    if (result?.degraded !== undefined) this.#failed(result.degraded);
    // A cached denial does not prove that the store is available.
    else if (this.#isUnavailable && result !== undefined && !result.cached) this.#succeeded();
  };

  readonly onFailure: FailureListener = () => this.#failed({ action: 'throw' });

  #failed(degraded: object): void {
    this.#lastFailureMs = this.#clock.now();
    if (this.#isUnavailable) return;
    this.#isUnavailable = true;
    this.#log.error(degraded, 'store unavailable');
  }

  #succeeded(): void {
    const sinceFailureMs = this.#clock.now() - this.#lastFailureMs;
    if (sinceFailureMs >= 0 && sinceFailureMs < SECOND_MS) return;
    this.#isUnavailable = false;
    this.#log.info('store available');
  }
}
