/** `sluice-server`: the service as a library, for the command line and for tests. */

export {
  runWorker,
  type Supervisor,
  serveWithWorkers,
  type WorkersOptions,
} from './cluster/index.ts';
export { closestName } from './config/did-you-mean.ts';
export { fingerprint } from './config/files.ts';
export { fingerprintOf, loadConfig } from './config/load.ts';
export { loadConfigInThread } from './config/load-in-thread.ts';
export { type Config, ConfigError, type ConfigProblem, problemText } from './config/model.ts';
export { readConfig } from './config/read.ts';
export type { ConfigText } from './config/source.ts';
export type { ReloadReport } from './configuration.ts';
export { makeLog, storeListeners } from './observe/log.ts';
export { standardOutput } from './observe/log-output.ts';
export { runUntilSignal } from './process.ts';
export { ConfigWarnings } from './reload/config-warnings.ts';
export { type ConfigWatch, type Reloadable, watchConfig } from './reload/watch-config.ts';
export { type Service, type ServiceOptions, startService } from './service.ts';
export {
  fileKeyOf,
  flagOf,
  isLoopback,
  type Listen,
  listenText,
  type ReadSettings,
  readListen,
  readSettings,
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  type SettingName,
  type Settings,
  SettingsError,
  shownSettings,
  variableOf,
} from './settings.ts';
export { type OpenStore, openStore, storeKind } from './stores/index.ts';
