/**
 * A process that owns stores: each connection to the first socket gets a store of its own, those to
 * the second share one. What comes that is not as agreed is reported to the parent.
 */
import { createServer } from 'node:net';
import { memoryStore } from 'sluice';
import { StoreServer } from '../../dist/cluster/store-server.js';

const [alone, shared] = process.argv.slice(2);
const together = new StoreServer(memoryStore());

function listen(path, ownerOf) {
  const server = createServer((channel) =>
    ownerOf().serve(channel, (error) => process.send({ violation: error.message })),
  );
  return new Promise((resolve) => server.listen(path, resolve));
}

await listen(alone, () => new StoreServer(memoryStore()));
await listen(shared, () => together);
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });
