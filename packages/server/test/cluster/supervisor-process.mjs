/**
 * A supervisor as a process of its own, for tests: settings as flags in the first argument, the
 * configuration as JSON in the file of the second. It answers what its parent asks.
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

process.on('message', async ({ id, ask }) => {
  const answers = {
    pids: () => service.pids,
    storePid: () => service.storePid,
    reload: () => service.reload(),
  };
  process.send({ id, answer: await answers[ask]() });
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
