/**
 * Who may import whom inside each package's src. A name that ends with `/` stands for a folder, `./`
 * for the importer's own folder and `*` for all but index.ts and testing/. After `type:` only types
 * may cross. A file without a row may not exist: a new one has to find its place here first. A
 * package is named as it is imported, and `node:*` is any module of Node's. The rows of the library's
 * core name none, so that it runs anywhere.
 */
export const arrows = {
  'packages/sluice/src/': {
    'clock.ts': '',
    'decision.ts': '',
    'errors.ts': '',
    'warning.ts': '',
    'algorithms/': 'algorithms/',
    'key.ts': 'errors.ts',
    'policy.ts': 'errors.ts algorithms/',
    'store.ts': 'type:*',
    'failure/': './ algorithms/ clock.ts decision.ts errors.ts policy.ts store.ts stores/memory/',
    'stores/redis/':
      './ algorithms/ clock.ts decision.ts errors.ts failure/ policy.ts store.ts warning.ts',
    'stores/': './ algorithms/ clock.ts decision.ts errors.ts key.ts policy.ts store.ts',
    'turn.ts': 'type:*',
    'api.ts': 'type:*',
    'acquire.ts': '*',
    'book.ts': '*',
    'limiter.ts': '*',
    'index.ts': '*',
    'engine.ts': '*',
    'http/': [
      './ api.ts clock.ts decision.ts errors.ts failure/ key.ts limiter.ts policy.ts store.ts',
      'warning.ts type:node:http',
    ].join(' '),
    'adapters/':
      './ http/ clock.ts decision.ts warning.ts type:node:http type:fastify type:hono @nestjs/',
    'testing/': '* testing/ node:net',
  },
  'packages/server/src/': {
    'clock.ts': 'node:*',
    'setting-values.ts': 'sluice/http',
    'settings.ts': 'setting-values.ts type:sluice type:sluice/http node:*',
    'store-url.ts': 'settings.ts sluice sluice/redis ioredis node:*',
    'config/': './ settings.ts sluice sluice/engine yaml zod node:*',
    'overrides.ts': 'config/model.ts sluice sluice/engine',
    'overrides-file.ts':
      'config/model.ts overrides.ts type:observe/ sluice sluice/engine yaml zod node:*',
    'policies.ts': 'config/model.ts overrides.ts sluice sluice/engine',
    'desk.ts': 'config/model.ts overrides.ts policies.ts sluice sluice/engine',
    'rules/': './ config/model.ts type:desk.ts overrides.ts sluice sluice/engine node:*',
    'configuration.ts': 'config/model.ts desk.ts rules/',
    'parts.ts': 'type:*',
    'http/': './ clock.ts desk.ts type:observe/ settings.ts sluice sluice/http node:*',
    'observe/': [
      './ clock.ts config/model.ts http/ settings.ts type:configuration.ts type:desk.ts',
      'type:store-url.ts sluice sluice/engine pino prom-client node:*',
    ].join(' '),
    'reload/': './ config/model.ts type:configuration.ts type:observe/ sluice node:*',
    'process.ts': 'type:observe/',
    'envoy-rls/': [
      './ clock.ts http/ policies.ts rules/ settings.ts type:desk.ts type:parts.ts',
      'sluice sluice/engine type:sluice/http @grpc/ node:*',
    ].join(' '),
    'forward-auth/': [
      './ http/ settings.ts type:configuration.ts type:desk.ts type:observe/ type:parts.ts',
      'type:rules/ sluice sluice/engine sluice/http type:node:http',
    ].join(' '),
    'http-api/': [
      './ clock.ts config/model.ts desk.ts http/ overrides.ts policies.ts settings.ts type:observe/',
      'type:parts.ts sluice sluice/engine type:sluice/http zod type:node:http node:fs',
    ].join(' '),
    'workers/crew.ts': 'type:*',
    'workers/': '* workers/ sluice sluice/engine node:*',
    'service.ts': '*',
    'configured.ts': '*',
    'index.ts': '*',
  },
  'packages/traffic/src/': {
    'calendar.ts': '',
    'entry.ts': '',
    'formats/': './ type:entry.ts',
    'lines.ts': 'node:buffer',
    'source.ts': 'lines.ts node:*',
    'order.ts': 'type:entry.ts',
    'merge.ts': 'type:entry.ts',
    'read-log.ts': 'type:entry.ts formats/ merge.ts order.ts source.ts',
    'replay/': './ calendar.ts type:entry.ts formats/text.ts sluice sluice/engine sluice/http',
    'generate/': './ calendar.ts type:entry.ts formats/text.ts',
    'report/': './ calendar.ts type:* sluice node:crypto',
    'index.ts': '*',
  },
  'packages/cli/src/': {
    'output.ts': 'type:node:stream',
    'command.ts': 'type:* type:commander',
    'client.ts': 'output.ts commander node:*',
    'decision.ts': 'output.ts type:client.ts',
    'key-report.ts': 'output.ts',
    'terminal-log.ts': 'output.ts',
    'flags.ts': 'commander sluice-server',
    'effective.ts': 'flags.ts output.ts sluice-server node:*',
    'problems.ts': 'output.ts sluice-server/configured node:*',
    'start-failure.ts': 'output.ts sluice-server',
    'welcome.ts': 'effective.ts output.ts sluice-server',
    'traffic/': [
      './ client.ts type:command.ts decision.ts output.ts problems.ts',
      'commander sluice sluice/http sluice-server/configured sluice-traffic node:*',
    ].join(' '),
    'pause.ts': 'sluice',
    'option-values.ts': 'output.ts commander',
    'board/': './ client.ts output.ts sluice sluice-traffic',
    'load/': './ output.ts pause.ts sluice sluice-traffic node:*',
    'demo/': [
      './ board/text.ts load/ output.ts pause.ts start-failure.ts',
      'sluice sluice-server sluice-traffic node:*',
    ].join(' '),
    'commands/': '* commander sluice sluice-server sluice-traffic node:*',
    'program.ts': 'command.ts commands/ output.ts commander node:*',
    'main.ts': 'output.ts program.ts',
  },
};
