/** The components that route handlers share. */

import type { ProcessGroup } from './cluster/process-group.ts';
import type { Configuration } from './configuration.ts';
import type { DecisionService } from './decision-service.ts';
import type { AccessControl } from './http/access.ts';
import type { Certificates } from './http/certificates.ts';
import type { TokenAttempts } from './http-api/token-attempts.ts';
import type { Health } from './observe/health.ts';
import type { Live } from './observe/live.ts';
import type { Logger } from './observe/log.ts';
import type { Metrics } from './observe/metrics.ts';
import type { TopKeys } from './observe/top-keys.ts';
import type { OverridesFile } from './overrides-file.ts';
import type { Settings } from './settings.ts';
import type { OpenStore } from './stores/index.ts';

export interface AppContext {
  readonly settings: Settings;
  /** Undefined without TLS. */
  readonly certificates?: Certificates | undefined;
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
  readonly store: OpenStore;
  readonly log: Logger;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly topKeys: TopKeys;
  /** The history and the live feed. */
  readonly live: Live;
  readonly access: AccessControl;
  readonly attempts: TokenAttempts;
  readonly group: ProcessGroup;
  /** Undefined without `--overrides-file`. */
  readonly overridesFile?: OverridesFile | undefined;
}
