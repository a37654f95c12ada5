/**
 * Classifies the errors of Redis by their messages. With most clients, the message is the server's
 * text, which starts with a code. With valkey-glide, the message contains the name of the error.
 */

/** Thrown if the reply to an operation is an error or malformed. */
export class StoreReplyError extends Error {
  /** Whether the error is about the value of one key, so that the store itself works. */
  readonly isOfKey: boolean;

  constructor(message: string) {
    super(message);
    this.name = 'StoreReplyError';
    this.isOfKey = KEY_ERROR.test(message);
  }
}

/**
 * Thrown if an operation cannot be encoded as a command. That is an error of the caller, not of the
 * store. `cause` is the original error.
 */
export class NotSentError extends Error {
  readonly notSent = true;

  constructor(cause: unknown) {
    super('The operation could not be sent', { cause });
    this.name = 'NotSentError';
  }
}

/**
 * Matches errors about a value that another program has written: errors of decide.lua, which
 * contain `of this limiter` or start with `user_script:`, and errors of Lua's decoders. Errors that
 * Redis itself raises inside a script start with a code, or with `@user_script` before version 7.
 */
const KEY_ERROR = new RegExp(
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
