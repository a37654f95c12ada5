/**
 * Two services in a separate process, without and with TLS, each with HTTP and gRPC. The test reads
 * their memory and detects a crash. The arguments are a certificate and its key.
 */
import { pino } from 'pino';
import { openStore, readConfig, readSettings, startService } from 'sluice-server';

const [tlsCert, tlsKey] = process.argv.slice(2);
const failures = [];
const fail = (message) => failures.length < 20 && failures.push(String(message).slice(0, 2000));
process.on('unhandledRejection', (error) => fail(`unhandled rejection: ${error?.stack}`));
process.on('uncaughtException', (error) => fail(`uncaught exception: ${error?.stack}`));
/** An error in the log is a failure. */
const write = (line) => {
  if (JSON.parse(line).level >= 50) fail(line);
};
const log = pino({ level: 'info' }, { write });
const text = `
policies:
  few: 2/1m
  many: { limit: 1000000, window: 1h, costs: { search: 100 } }
  bucket: { limit: 10, window: 1s, algorithm: token-bucket, burst: 20, shadow: true }
  healthy: 1000000000/1m
rules:
  - { match: { path: "/**" }, limits: [{ policy: many, key: header:x-api-key | address }] }
  - match: { domain: shop, descriptor: { user: "*" } }
    limits: [{ policy: many, key: descriptor:user }]
`;

async function start(tls) {
  const flags = { listen: '127.0.0.1:0', grpc: '127.0.0.1:0', drainMs: '1s', maxKeys: '100000' };
  const { settings } = readSettings({ ...flags, ...tls }, {}, {});
  const config = readConfig([{ path: 'hostile.yaml', text }]);
  const store = await openStore(settings, { onWarning() {}, onConnection() {} });
  return startService({ settings, store, log, config, load: async () => config });
}

const plain = await start({});
const secure = await start({ tlsCert, tlsKey });

process.on('message', () => {
  globalThis.gc();
  const { rss, heapUsed } = process.memoryUsage();
  process.send({ rss, heapUsed, failures });
});
process.on('disconnect', () => process.exit());
const portsOf = ({ http, grpc }) => ({ http: http.port, grpc: grpc.port });
process.send({ plain: portsOf(plain), secure: portsOf(secure) });
