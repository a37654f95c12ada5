/**
 * A service as a process of its own, for tests of its end: settings as flags in the first argument,
 * configuration files in the others.
 */
import {
  loadConfig,
  makeLog,
  openStore,
  readSettings,
  runUntilSignal,
  startService,
  storeListeners,
  watchConfig,
} from '../dist/index.js';

const [flags, ...paths] = process.argv.slice(2);
const { settings } = readSettings(JSON.parse(flags), {}, {});
const log = makeLog(settings);
let connected;
const isConnected = new Promise((resolve) => {
  connected = resolve;
});
const { onWarning } = storeListeners(log);
const store = await openStore(settings, { onWarning, onConnection: connected });
if (store.kind === 'redis') await isConnected;
const load = () => loadConfig(paths);
const service = await startService({ settings, store, log, config: await load(), load });
const watch = await watchConfig(service.app, paths);
const ended = runUntilSignal(service, log);
process.send({ port: service.http.port });
process.disconnect();
await ended;
watch.stop();
