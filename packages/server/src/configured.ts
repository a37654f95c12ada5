/**
 * `sluice-server/configured`: the configuration and its rules without the service, for tools that
 * serve no requests. Such a tool starts faster if it does not load the modules of the service.
 */

export { AmbiguousRequest } from './ambiguous-request.ts';
export { didYouMean } from './config/did-you-mean.ts';
export { loadConfig } from './config/load.ts';
export {
  type Config,
  ConfigError,
  type ConfigProblem,
  type OverrideConfig,
  problemText,
} from './config/model.ts';
export type { LimitRequest } from './decision-service.ts';
export { Overrides } from './overrides.ts';
export { ServedPolicies } from './policies.ts';
export type { RequestAttributes } from './rules/request-attributes.ts';
export { RequestRules } from './rules/request-rules.ts';
export { SETTINGS } from './settings.ts';
