/**
 * A service as a separate process, for tests of its shutdown. The first argument contains settings
 * as flags, the others are configuration files.
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
