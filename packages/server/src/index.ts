/** `sluice-server`: the service as a library, for the command line and for tests. */
export { type Config, ConfigError, type ConfigProblem, problemText } from './config/model.ts';
export { makeLog } from './log.ts';
export { type Service, type ServiceOptions, startService } from './service.ts';
export {
  fileKeyOf,
  flagOf,
  listenText,
  type ReadSettings,
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
export { type OpenStore, openStore } from './store-url.ts';
