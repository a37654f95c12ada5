/** Warnings: something about a setup that will hurt, and what to do about it. */

export interface Warning {
  /** Stable, such as `WARN_REDIS_EVICTS`. */
  readonly code: string;
  readonly message: string;
}

/** Calls a function of the user's, if there is one. What it throws is a warning, and no more. */
export function callSafely<T>(listener: ((value: T) => void) | undefined, value: T): void {
  try {
    listener?.(value);
  } catch (error) {
    emitWarning({ code: 'WARN_LISTENER_FAILED', message: `A listener has thrown: ${error}` });
  }
}

/** Where warnings go unless somebody takes them: to the process, if there is one. */
export function emitWarning({ code, message }: Warning): void {
  const { process } = globalThis as {
    process?: { emitWarning?: (text: string, options: object) => void };
  };
  process?.emitWarning?.(message, { type: 'SluiceWarning', code });
}
