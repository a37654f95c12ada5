/**
 * Allowed imports inside each package's src folder. A row has a file or folder, and the names that
 * it may import. Every file needs a row.
 *
 *     NAME/       a folder; `./` is the importer's own folder
 *     *           everything except index.ts and testing/
 *     type:NAME   only types may be imported
 *     node:*      any Node.js module
 *
 * Packages are listed by their import name. Rows of the library's core list no packages, so that
 * the core runs on any runtime.
 */
export const importRules = {
  'packages/sluice/src/': {
    'heap.ts': '',
    'clock.ts': 'heap.ts errors.ts',
    'decision.ts': '',
    'errors.ts': '',
    'warning.ts': '',
    'format.ts': '',
    'did-you-mean.ts': '',
    'algorithms/': 'algorithms/ format.ts',
    'key.ts': 'errors.ts',
    'duration.ts': '',
    'policy.ts': 'errors.ts algorithms/ duration.ts',
    'store.ts': 'algorithms/ errors.ts type:*',
    'used-receipts.ts': 'type:decision.ts',
    'idempotency/': './ type:decision.ts heap.ts key.ts store.ts type:stores/memory/hash.ts',
    'failure/':
      './ algorithms/ clock.ts decision.ts errors.ts key.ts policy.ts store.ts stores/memory/',
    'leases/': './ clock.ts decision.ts type:policy.ts type:store.ts',
    'stores/redis/':
      './ algorithms/ clock.ts decision.ts duration.ts errors.ts failure/ leases/ policy.ts' +
      ' store.ts warning.ts',
    'stores/': [
      './ algorithms/ clock.ts decision.ts errors.ts idempotency/ key.ts policy.ts store.ts',
      'warning.ts',
    ].join(' '),
    'api.ts': 'type:*',
    'acquire/': './ algorithms/ clock.ts decision.ts errors.ts heap.ts type:policy.ts store.ts',
    'run/': './ acquire/ algorithms/ clock.ts decision.ts errors.ts heap.ts store.ts',
    'policy-registry.ts': '*',
    'limiter.ts': '*',
    'index.ts': '*',
    'engine.ts': '*',
    'http/compat/': [
      './ http/client-address.ts clock.ts decision.ts errors.ts failure/ policy.ts store.ts',
      'stores/memory/ warning.ts type:http/headers.ts type:http/options.ts',
    ].join(' '),
    'http/': [
      './ algorithms/ api.ts clock.ts decision.ts did-you-mean.ts errors.ts failure/ key.ts',
      'limiter.ts',
      'policy.ts store.ts warning.ts type:node:http',
    ].join(' '),
    'adapters/':
      './ http/ clock.ts decision.ts warning.ts type:node:http type:express' +
      ' type:fastify type:hono type:koa @nestjs/',
    'llm/': [
      './ type:api.ts clock.ts type:decision.ts errors.ts http/check-options.ts',
      'http/parse-rate-limit.ts type:key.ts warning.ts',
    ].join(' '),
    'otel/': 'type:decision.ts errors.ts @opentelemetry/api',
    'testing/': '* testing/ node:net',
  },
  'packages/server/src/': {
    'ambiguous-request.ts': '',
    'clock.ts': 'node:*',
    'with-timeout.ts': 'sluice',
    'regular-file.ts': 'node:*',
    'file-lock.ts': 'with-timeout.ts sluice sluice/engine node:*',
    'proxy-profiles.ts': '',
    'stores/': './ stores/store-kind.ts clock.ts sluice sluice/redis ioredis node:*',
    'expectation.ts': 'zod',
    'setting-values.ts': 'expectation.ts stores/ sluice/engine sluice/http zod',
    'settings.ts': [
      'expectation.ts proxy-profiles.ts setting-values.ts stores/',
      'sluice/engine type:sluice/http zod node:*',
    ].join(' '),
    'slices.ts': 'clock.ts',
    'wildcard.ts': '',
    'pattern-index.ts': 'slices.ts wildcard.ts',
    'config/': [
      './ clock.ts expectation.ts regular-file.ts settings.ts wildcard.ts with-timeout.ts',
      'sluice sluice/engine yaml zod node:*',
    ].join(' '),
    'overrides.ts': 'config/model.ts pattern-index.ts slices.ts wildcard.ts sluice sluice/engine',
    'shadow-overrides.ts': 'sluice/engine',
    'overrides-file.ts': [
      'config/model.ts file-lock.ts overrides.ts regular-file.ts shadow-overrides.ts type:observe/',
      'with-timeout.ts sluice sluice/engine yaml zod node:*',
    ].join(' '),
    'policies.ts': [
      'config/model.ts overrides.ts shadow-overrides.ts slices.ts sluice sluice/engine',
    ].join(' '),
    'receipts.ts': 'type:decision-service.ts type:sluice sluice/engine node:crypto',
    'adjust-receipts.ts': 'type:sluice sluice/engine',
    'decision-service.ts': [
      'adjust-receipts.ts',
      'config/model.ts overrides.ts policies.ts shadow-overrides.ts slices.ts sluice sluice/engine',
    ].join(' '),
    'rules/': [
      './ ambiguous-request.ts config/model.ts type:decision-service.ts pattern-index.ts',
      'slices.ts wildcard.ts',
      'sluice sluice/engine node:*',
    ].join(' '),
    'configuration.ts': 'config/load.ts config/model.ts decision-service.ts rules/ slices.ts',
    'app-context.ts': 'type:*',
    'http/': [
      './ clock.ts config/model.ts decision-service.ts type:observe/ regular-file.ts settings.ts',
      'with-timeout.ts',
      'sluice sluice/engine sluice/http node:*',
    ].join(' '),
    'observe/': [
      './ clock.ts config/model.ts http/ policies.ts settings.ts type:configuration.ts',
      'type:decision-service.ts type:stores/ wildcard.ts with-timeout.ts',
      'type:cluster/process-group.ts sluice',
      'sluice/engine pino prom-client node:*',
    ].join(' '),
    'reload/': [
      './ config/files.ts config/model.ts type:configuration.ts type:observe/ with-timeout.ts',
      'sluice',
      'node:*',
    ].join(' '),
    'process.ts': 'clock.ts observe/log-output.ts type:observe/',
    'envoy-rls/': [
      './ clock.ts http/ type:observe/ policies.ts rules/ settings.ts decision-service.ts',
      'type:app-context.ts',
      'sluice sluice/engine type:sluice/http @grpc/ node:*',
    ].join(' '),
    'forward-auth/': [
      './ ambiguous-request.ts http/ proxy-profiles.ts settings.ts',
      'type:configuration.ts type:decision-service.ts type:observe/ type:app-context.ts',
      'type:rules/ sluice sluice/engine sluice/http type:node:http type:node:net',
    ].join(' '),
    'http-api/': [
      './ clock.ts config/model.ts decision-service.ts http/ overrides.ts policies.ts settings.ts',
      'observe/ receipts.ts stores/ with-timeout.ts',
      'type:app-context.ts sluice sluice/engine sluice/http zod type:node:http node:crypto node:fs',
    ].join(' '),
    'dashboard/': './ http/ type:observe/ node:*',
    'cluster/process-group.ts': 'type:*',
    'cluster/': '* cluster/ sluice sluice/engine sluice/failure node:*',
    'service.ts': '*',
    'configured.ts': '*',
    'index.ts': '*',
  },
  'packages/traffic/src/': {
    'calendar.ts': '',
    'format.ts': 'calendar.ts sluice/engine',
    'entry.ts': '',
    'formats/': './ type:entry.ts',
    'lines.ts': 'node:buffer',
    'source.ts': 'lines.ts node:*',
    'order.ts': 'type:entry.ts',
    'merge.ts': 'type:entry.ts',
    'read-log.ts': 'type:entry.ts formats/ merge.ts order.ts source.ts',
    'replay/': './ calendar.ts type:entry.ts formats/text.ts sluice sluice/engine sluice/http',
    'generate/': './ calendar.ts type:entry.ts formats/text.ts',
    'report/': './ calendar.ts format.ts replay/explain.ts type:* sluice node:crypto',
    'lab.ts': 'generate/ replay/',
    'index.ts': '*',
  },
  'packages/cli/src/': {
    'output.ts': 'type:node:stream sluice-traffic/format',
    'command.ts': 'type:* type:commander',
    'client.ts': 'output.ts commander node:*',
    'decision.ts': 'output.ts type:client.ts sluice-traffic/format',
    'key-report.ts': 'output.ts sluice-traffic/format',
    'terminal-log.ts': 'output.ts',
    'flags.ts': 'commander sluice-server',
    'effective.ts': 'flags.ts output.ts sluice-server node:*',
    'problems.ts': 'output.ts sluice-server/configured node:*',
    'start-failure.ts': 'output.ts sluice-server',
    'welcome.ts': 'effective.ts output.ts sluice-server sluice-traffic/format',
    'traffic/': [
      './ client.ts type:command.ts decision.ts option-values.ts output.ts problems.ts',
      'commander sluice sluice/engine sluice/http sluice-server/configured sluice-traffic',
      'sluice-traffic/format node:*',
    ].join(' '),
    'pause.ts': 'sluice',
    'option-values.ts': 'output.ts commander sluice sluice/engine sluice-traffic',
    'top/': './ client.ts output.ts sluice sluice-traffic sluice-traffic/format',
    'load/': './ output.ts pause.ts sluice type:sluice-traffic sluice-traffic/format node:*',
    'demo/': [
      './ top/text.ts load/ output.ts pause.ts start-failure.ts',
      'sluice sluice-server sluice-traffic/format node:*',
    ].join(' '),
    'commands/':
      '* commander sluice sluice/engine sluice-server sluice-traffic sluice-traffic/format node:*',
    'completion-script.ts': 'type:commander',
    'program.ts': 'command.ts commands/ completion-script.ts output.ts commander node:*',
    'main.ts': 'output.ts program.ts',
  },
  'packages/dashboard/src/': {
    'clock.ts': '',
    'route.ts': '',
    'api/': './ clock.ts type:sluice',
    'page.ts': 'type:* type:lit-html',
    'view/': [
      './ api/types.ts clock.ts route.ts lit-html lit-html/async-directive.js uplot',
      'lit-html/directive.js lit-html/directives/keyed.js lit-html/directives/ref.js',
      'lit-html/directives/repeat.js sluice/engine sluice-traffic/format',
    ].join(' '),
    'sign-in/': './ type:api/ view/ lit-html lit-html/directives/ref.js',
    'overview/': './ api/ clock.ts type:page.ts route.ts view/ lit-html',
    'policy/': './ api/ clock.ts type:page.ts route.ts view/ lit-html sluice/engine',
    'key/': [
      './ api/ clock.ts type:page.ts route.ts view/ lit-html lit-html/directives/guard.js',
      'lit-html/directives/ref.js sluice/engine',
    ].join(' '),
    'denials/': './ api/ clock.ts type:page.ts route.ts view/ lit-html',
    'lab/': [
      './ api/types.ts clock.ts type:page.ts route.ts view/',
      'lit-html lit-html/directives/guard.js lit-html/directives/live.js',
      'lit-html/directives/ref.js sluice sluice/engine sluice-traffic/lab',
    ].join(' '),
    'frame.ts': 'type:api/ route.ts view/ lit-html',
    'app.ts': '* lit-html',
    'main.ts': 'app.ts',
  },
};
