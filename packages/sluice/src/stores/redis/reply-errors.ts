/**
 * What the errors of Redis mean for what was asked. Clients word them differently: most give the
 * server's own text, which begins with a code; valkey-glide names the kind of error.
 */

/** The reply to one operation is an error, or not what was agreed. */
export class StoreReplyError extends Error {
  /** Whether it says something about a key, and nothing about the store. */
  readonly isOfKey: boolean;

  constructor(message: string) {
    super(message);
    this.name = 'StoreReplyError';
    this.isOfKey = OF_KEY.test(message);
  }
}

/**
 * An operation that could not be written down as a command: an error of its caller, not of the
 * store. What was thrown is the `cause`.
 */
export class NotSentError extends Error {
  readonly notSent = true;

  constructor(cause: unknown) {
    super('The operation could not be sent', { cause });
    this.name = 'NotSentError';
  }
}

/**
 * The value under a key cannot be decoded: another program has written it. Errors that Redis itself
 * raises inside a script begin with a code, or with `@user_script` before version 7. Those of the
 * script begin with its name, and those of the decoders with neither.
 */
const OF_KEY = new RegExp(
  [
    String.raw`\bWRONGTYPE\b|\bof this limiter\b|^(?:ERR )?user_script:`,
    String.raw`\bin input\b|\btoo short\b|\battempt to \w+|\bbad argument\b|\btoo many results\b`,
  ].join('|'),
);

const MISSING_SCRIPT = /\bNOSCRIPT\b|NoScriptError/;

/** With these Redis says that it has not done it, so that it may be asked for again. */
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
