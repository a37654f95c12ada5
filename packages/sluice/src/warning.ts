/** Warnings about settings that weaken limits, and about errors in callbacks. */

/**
 * Warning codes, which are stable. A test compares the comments with the table in docs/errors.md.
 * Codes are types, so they take no space at run time.
 */
export interface WarningCodes {
  /** A callback of the application threw. Its later errors are not reported. */
  WARN_CALLBACK: never;
  /** Clients choose the only key of a limit. Add a limit by address, or set `authenticated`. */
  WARN_HEADER_KEY: never;
  /** A request has no address, so all such requests share one key. */
  WARN_NO_CLIENT_ADDRESS: never;
  /** A request has a forwarding header, but no proxy is trusted: see `trustProxy`. */
  WARN_FORWARDED_IGNORED: never;
  /** A trusted proxy sends no forwarding header, so all its clients share one key. */
  WARN_FORWARDED_MISSING: never;
  /** The forwarding header has fewer addresses than `trustProxy`. Clients can forge addresses. */
  WARN_FORWARDED_SHORT: never;
  /** A trusted proxy sends an invalid client address. All such clients share one key. */
  WARN_FORWARDED_UNREADABLE: never;
  /** The framework trusts every proxy, so clients can forge their address. */
  WARN_TRUSTS_EVERYBODY: never;
  /** A store of express-rate-limit counts in fixed windows, which admit up to twice the limit. */
  WARN_FIXED_WINDOW_STORE: never;
  /** A store of express-rate-limit failed. */
  WARN_STORE_FAILED: never;
  /** The Redis client queues commands while it is disconnected. */
  WARN_REDIS_OFFLINE_QUEUE: never;
  /** The Redis client sends commands again after a lost connection, so calls are charged twice. */
  WARN_REDIS_RESEND: never;
  /** The Redis client has a key prefix with a brace, so all keys are in one Cluster slot. */
  WARN_REDIS_KEY_PREFIX: never;
  /** The Redis client keeps a connection to a server that has stopped responding. */
  WARN_REDIS_SOCKET_TIMEOUT: never;
  /** The Redis client does not detect a failover. */
  WARN_REDIS_FAILOVER: never;
  /** Redis evicts keys when its memory is full, which resets their limits. */
  WARN_REDIS_EVICTS: never;
}

export type WarningCode = keyof WarningCodes;

export interface Warning {
  /** A name that does not change between versions, such as `WARN_REDIS_EVICTS`. */
  readonly code: WarningCode;
  /** The problem, and how to fix it. */
  readonly message: string;
}

/** The default handler of warnings. Does nothing on runtimes without `process.emitWarning`. */
export function emitWarning({ code, message }: Warning): void {
  emit(message, code);
}

function emit(message: unknown, code: WarningCode): void {
  const { process } = globalThis as {
    process?: { emitWarning?: (message: string, options: object) => void };
  };
  process?.emitWarning?.(`${message}`, { type: 'SluiceWarning', code });
}

/**
 * Wraps a callback of the application. If it throws or rejects, the first error is emitted as a
 * warning: an error in a callback must neither change a decision nor end the process.
 */
export function warnOnError<T>(callback: (value: T) => unknown): (value: T) => Promise<void> {
  let isReported = false;
  return async (value) => {
    try {
      await callback(value);
    } catch (error) {
      if (!isReported) emit((error as Error)?.stack, 'WARN_CALLBACK');
      isReported = true;
    }
  };
}
