/** What takes the admin token: receipts, keys, policies, overrides, reloads. */
import { HttpError } from '../http/exchange.ts';
import type { Handler, Router } from '../http/router.ts';
import type { Parts } from '../parts.ts';
import { audit } from './audit.ts';
import { eventsHandler } from './events.ts';
import { inspectHandler, resetByPathHandler, resetHandler } from './keys.ts';
import { openapiHandler } from './openapi.ts';
import {
  deleteOverrideHandler,
  overridesHandler,
  setOverrideByPathHandler,
  setOverrideHandler,
} from './overrides.ts';
import { changePolicyHandler, policiesHandler, policyHandler } from './policies.ts';
import { refundHandler, settleHandler } from './receipts.ts';

function reloadHandler({ configuration, log }: Parts): Handler {
  return async (exchange) => {
    exchange.checkQuery();
    const report = await configuration.reload({ ifChanged: true });
    const { ok, problems } = report;
    const changed = report.isUnchanged !== true;
    audit(log, exchange, { action: 'reload', after: { ok, changed, problems: problems.length } });
    if (ok) return exchange.send(200, { ok, changed });
    const what = 'Expected files without mistakes; what counted before still does';
    throw new HttpError(422, 'ERR_CONFIG', what, undefined, {}, { problems });
  };
}

export function adminRoutes(router: Router, parts: Parts): void {
  const { desk } = parts;
  router.add('POST', '/v1/refund', 'admin', refundHandler(desk));
  router.add('POST', '/v1/settle', 'admin', settleHandler(desk));
  router.add('POST', '/v1/reset', 'admin', resetHandler(parts));
  router.add('GET', '/v1/keys', 'admin', inspectHandler(parts));
  router.add('GET', '/v1/keys/:policy/:key', 'admin', inspectHandler(parts));
  router.add('DELETE', '/v1/keys/:policy/:key', 'admin', resetByPathHandler(parts));
  router.add('GET', '/v1/policies', 'admin', policiesHandler(parts));
  router.add('GET', '/v1/policies/:policy', 'admin', policyHandler(parts));
  router.add('PATCH', '/v1/policies/:policy', 'admin', changePolicyHandler(parts));
  router.add('GET', '/v1/overrides', 'admin', overridesHandler(parts));
  router.add('POST', '/v1/overrides', 'admin', setOverrideHandler(parts));
  router.add('DELETE', '/v1/overrides', 'admin', deleteOverrideHandler(parts));
  router.add('PUT', '/v1/overrides/:policy/:key', 'admin', setOverrideByPathHandler(parts));
  router.add('DELETE', '/v1/overrides/:policy/:key', 'admin', deleteOverrideHandler(parts));
  router.add('GET', '/v1/events', 'admin', eventsHandler(parts));
  router.add('POST', '/v1/reload', 'admin', reloadHandler(parts));
  router.add('GET', '/v1/openapi.json', 'open', openapiHandler());
}
