/**
 * Supervisor as a separate process, for tests. Arguments: settings as JSON, and the path of the
 * configuration as JSON. Replies to queries of its parent.
 */
import { readFile } from 'node:fs/promises';
import {
  ConfigError,
  makeLog,
  openStore,
  readSettings,
  runUntilSignal,
  serveWithWorkers,
  startService,
  storeListeners,
} from '../../dist/index.js';

const [flags, file] = process.argv.slice(2);
const { settings } = readSettings(JSON.parse(flags), {}, {});
const log = makeLog(settings);

async function load() {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    throw new ConfigError([{ file, line: 1, column: 1, message: error.message }]);
  }
}

const config = await load();
const start =
  settings.workers === 1
    ? async () =>
        startService({
          settings,
          log,
          config,
          load,
          store: await openStore(settings, storeListeners(log)),
        })
    : () => serveWithWorkers({ settings, log, config, load });

process.on('message', async ({ id, query }) => {
  const handlers = {
    pids: () => service.pids,
    storePid: () => service.storePid,
    reload: () => service.reload(),
  };
  process.send({ id, result: await handlers[query]() });
});

let service;
try {
  service = await start();
} catch (error) {
  process.send({ failed: { message: error.message, code: error.code } });
  process.exit(1);
}
const { url, http, grpc, pids } = service;
process.send({ ready: { url, http, grpc, pids } });
await runUntilSignal(service, log);
process.exit(0);
