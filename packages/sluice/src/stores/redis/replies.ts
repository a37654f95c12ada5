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

/** Somebody else has written what is kept under a key. */
const OF_KEY = /\bWRONGTYPE\b|\bof this limiter\b/;

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
