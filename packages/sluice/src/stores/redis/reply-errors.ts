/**
 * Classifies the errors of Redis. Most clients return the server's text, which starts with a code.
 * valkey-glide returns the name of the kind of error.
 */

/** The reply to an operation is an error or malformed. */
export class StoreReplyError extends Error {
  /** Whether the error concerns one key and not the store. */
  readonly isOfKey: boolean;

  constructor(message: string) {
    super(message);
    this.name = 'StoreReplyError';
    this.isOfKey = OF_KEY.test(message);
  }
}

/**
 * An operation could not be encoded as a command. That is an error of the caller, not of the store.
 * The `cause` is what was thrown.
 */
export class NotSentError extends Error {
  readonly notSent = true;

  constructor(cause: unknown) {
    super('The operation could not be sent', { cause });
    this.name = 'NotSentError';
  }
}

/**
 * Matches errors about a value that another program has written. Errors that Redis raises inside a
 * script start with a code, or with `@user_script` before version 7. Those of the script start with
 * its name, and those of the decoders with neither.
 */
const OF_KEY = new RegExp(
  [
    String.raw`\bWRONGTYPE\b|\bof this limiter\b|^(?:ERR )?user_script:`,
    String.raw`\bin input\b|\btoo short\b|\battempt to \w+|\bbad argument\b|\btoo many results\b`,
  ].join('|'),
);

const MISSING_SCRIPT = /\bNOSCRIPT\b|NoScriptError/;

/** Errors with which Redis reports that the command was not executed, so it can be retried. */
const NOT_DONE = new RegExp(
  [
    String.raw`\b(?:READONLY|LOADING|CLUSTERDOWN|MOVED|ASK|TRYAGAIN|NOREPLICAS|MASTERDOWN)\b`,
    String.raw`\b(?:ReadOnly|BusyLoadingError|ClusterDown|Moved|Ask|TryAgain|MasterDown)\b`,
    MISSING_SCRIPT.source,
  ].join('|'),
);

const messageOf = (error: unknown): string => String((error as Error | undefined)?.message);

export const isMissingScript = (error: unknown): boolean => MISSING_SCRIPT.test(messageOf(error));

export const isNotDone = (error: unknown): boolean => NOT_DONE.test(messageOf(error));
