/** What the protocols are made of: each takes what it needs, and knows nothing of the others. */
import type { Configuration } from './configuration.ts';
import type { Desk } from './desk.ts';
import type { Logger } from './log.ts';
import type { Settings } from './settings.ts';
import type { OpenStore } from './store-url.ts';

export interface Parts {
  readonly settings: Settings;
  readonly desk: Desk;
  readonly configuration: Configuration;
  readonly store: OpenStore;
  readonly log: Logger;
}
