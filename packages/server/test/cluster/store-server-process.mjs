/**
 * Store server as a separate process. Each connection to the first socket gets its own store; all
 * connections to the second share one. Protocol violations are reported to the parent.
 */
import { createServer } from 'node:net';
import { memoryStore } from 'sluice';
import { StoreServer } from '../../dist/cluster/store-server.js';

const [alone, shared] = process.argv.slice(2);
const sharedServer = new StoreServer(memoryStore());

function listen(path, serverFor) {
  const server = createServer((channel) =>
    serverFor().serve(channel, (error) => process.send({ violation: error.message })),
  );
  return new Promise((resolve) => server.listen(path, resolve));
}

await listen(alone, () => new StoreServer(memoryStore()));
await listen(shared, () => sharedServer);
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });
