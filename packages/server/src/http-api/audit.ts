/** What was changed by hand: who, what, and what it was before. */
import type { Exchange } from '../http/exchange.ts';
import type { Logger } from '../observe/log.ts';

export interface Change {
  readonly action: 'reset' | 'override.set' | 'override.delete' | 'reload';
  readonly policy?: string;
  readonly key?: string;
  /** What it was; null if there was nothing. */
  readonly before?: unknown;
  readonly after?: unknown;
}

/** The address is the one at the other end of the connection, whatever headers claim. */
export function audit(log: Logger, exchange: Exchange, change: Change): void {
  const { remoteAddress = 'unknown' } = exchange.request.socket;
  log.info({ audit: { ...change, by: remoteAddress } }, 'changed by hand');
}
