/** The service in a separate process, so that the test can read its memory and detect a crash. */
import { pino } from 'pino';
import { openStore, readSettings, startService } from 'sluice-server';

let errors = 0;
/** Counts the errors in the log. */
const write = (line) => {
  if (JSON.parse(line).level >= 50) errors++;
};
const log = pino({ level: 'info' }, { write });
const { settings } = readSettings({ listen: '127.0.0.1:0', drainMs: '1s' }, {}, {});
const shadow = false;
const config = {
  files: [],
  policies: [
    { name: 'few', options: { limit: 2, window: '1m' }, shadow },
    { name: 'many', options: { limit: 1e6, window: '1h', costs: { search: 100 } }, shadow },
    {
      name: 'bucket',
      options: { limit: 10, window: '1s', algorithm: 'token-bucket', burst: 20 },
      shadow: true,
    },
    { name: 'healthy', options: { limit: 1e9, window: '1m' }, shadow },
  ],
  rules: [],
  domains: [],
  warnings: [],
  overrides: [],
  settings: {},
};
const store = await openStore(settings, { onWarning() {}, onConnection() {} });
const service = await startService({ settings, store, log, config, load: async () => config });

process.on('message', () => {
  globalThis.gc();
  const { rss, heapUsed } = process.memoryUsage();
  process.send({ rss, heapUsed, errors });
});
process.on('disconnect', () => process.exit());
process.send({ port: service.http.port });
