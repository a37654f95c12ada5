/** The log: lines of JSON on standard output. Denials are sampled, because a flood has many. */
import { type Logger, pino } from 'pino';
import type { Settings } from './settings.ts';

export type { Logger };

export function makeLog({ logLevel }: Pick<Settings, 'logLevel'>): Logger {
  return pino({
    level: logLevel,
    base: { name: 'sluice' },
    timestamp: pino.stdTimeFunctions.isoTime,
  });
}
