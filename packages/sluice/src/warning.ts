/** Warnings about settings that weaken limits, and about errors in callbacks. */

export interface Warning {
  /** A name that does not change between versions, such as `WARN_REDIS_EVICTS`. */
  readonly code: string;
  readonly message: string;
}

/** The default handler. Does nothing on runtimes without `process.emitWarning`. */
export function emitWarning({ code, message }: Warning): void {
  emit(message, code);
}

function emit(message: unknown, code: string): void {
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
