/** The `logger` of express-rate-limit: receives warnings and errors of the store. */
import { checkMethods } from '../../errors.ts';
import { emitWarning, type Warning, warnOnError } from '../../warning.ts';

/** Any logger with these methods, such as `console` or a logger of pino. */
export interface Logger {
  /** Receives an error of the store, and a message about what happens to the request. */
  error(error: unknown, message?: string): void;
  /** Receives a warning about the configuration, with `code` and `message`. */
  warn(warning: unknown, message?: string): void;
}

export interface LogOptions {
  readonly logger?: Logger | undefined;
  readonly onWarning?: ((warning: Warning) => void) | undefined;
}

/** Passes warnings and errors of the store to `logger`, `onWarning` or the process. */
export interface Log {
  readonly warn: (warning: Warning) => void;
  readonly error: (error: unknown, message: string) => void;
}

/** Returns the log. An error that `logger` or `onWarning` throws becomes a process warning. */
export function logOf({ logger, onWarning }: LogOptions): Log {
  if (logger !== undefined) {
    checkMethods('`logger` to have the methods `error` and `warn`', logger, 'error', 'warn');
  }
  const logWarning = logger && ((warning: Warning) => logger.warn(warning, warning.message));
  const warn = warnOnError(onWarning ?? logWarning ?? emitWarning);
  const logError = warnOnError(({ error, message }: { error: unknown; message: string }) =>
    logger === undefined
      ? warn({ code: 'WARN_STORE_FAILED', message: `${message}: ${errorText(error)}` })
      : logger.error(error, message),
  );
  return { warn, error: (error, message) => void logError({ error, message }) };
}

function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
