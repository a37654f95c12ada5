/** Routes of the admin API: receipts, holds, keys, blocks, policies, overrides, reload. */

import type { AppContext } from '../app-context.ts';
import { HttpError } from '../http/request-context.ts';
import type { Handler, Router } from '../http/router.ts';
import { audit } from './audit.ts';
import { blockHandler, unblockHandler } from './blocks.ts';
import type { ClientOf } from './clients.ts';
import { eventsHandler } from './events.ts';
import { releaseHandler, renewHandler } from './holds.ts';
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

function reloadHandler({ configuration, log }: AppContext): Handler {
  return async (context) => {
    context.checkQuery();
    const report = await configuration.reload({ ifChanged: true });
    const { ok, problems } = report;
    const changed = report.isUnchanged !== true;
    audit(log, context, { action: 'reload', after: { ok, changed, problems: problems.length } });
    if (ok) return context.send(200, { ok, changed });
    const what = 'The configuration files are invalid; the previous configuration is in effect';
    throw new HttpError(422, 'ERR_CONFIG', what, undefined, {}, { problems });
  };
}

export function adminRoutes(router: Router, app: AppContext, clientOf: ClientOf): void {
  const { decisionService } = app;
  router.add('POST', '/v1/refund', 'admin', refundHandler(decisionService, clientOf));
  router.add('POST', '/v1/settle', 'admin', settleHandler(decisionService, clientOf));
  router.add('POST', '/v1/release', 'admin', releaseHandler(decisionService));
  router.add('POST', '/v1/renew', 'admin', renewHandler(decisionService));
  router.add('POST', '/v1/blocks', 'admin', blockHandler(app));
  router.add('DELETE', '/v1/blocks', 'admin', unblockHandler(app));
  router.add('POST', '/v1/reset', 'admin', resetHandler(app));
  router.add('GET', '/v1/keys', 'admin', inspectHandler(app));
  router.add('GET', '/v1/keys/:policy/:key', 'admin', inspectHandler(app));
  router.add('DELETE', '/v1/keys/:policy/:key', 'admin', resetByPathHandler(app));
  router.add('GET', '/v1/policies', 'admin', policiesHandler(app));
  router.add('GET', '/v1/policies/:policy', 'admin', policyHandler(app));
  router.add('PATCH', '/v1/policies/:policy', 'admin', changePolicyHandler(app));
  router.add('GET', '/v1/overrides', 'admin', overridesHandler(app));
  router.add('POST', '/v1/overrides', 'admin', setOverrideHandler(app));
  router.add('DELETE', '/v1/overrides', 'admin', deleteOverrideHandler(app));
  router.add('PUT', '/v1/overrides/:policy/:key', 'admin', setOverrideByPathHandler(app));
  router.add('DELETE', '/v1/overrides/:policy/:key', 'admin', deleteOverrideHandler(app));
  router.add('GET', '/v1/events', 'admin', eventsHandler(app));
  router.add('POST', '/v1/reload', 'admin', reloadHandler(app));
  router.add('GET', '/v1/openapi.json', 'open', openapiHandler());
}
