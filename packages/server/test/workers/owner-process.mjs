/**
 * A process that owns stores: each connection to the first socket gets a store of its own, those to
 * the second share one. What comes that is not as agreed is reported to the parent.
 */
import { createServer } from 'node:net';
import { memoryStore } from 'sluice';
import { Owner } from '../../dist/workers/owner.js';

const [alone, shared] = process.argv.slice(2);
const together = new Owner(memoryStore());

function listen(path, ownerOf) {
  const server = createServer((channel) =>
    ownerOf().serve(channel, (error) => process.send({ violation: error.message })),
  );
  return new Promise((resolve) => server.listen(path, resolve));
}

await listen(alone, () => new Owner(memoryStore()));
await listen(shared, () => together);
process.on('disconnect', () => process.exit(0));
process.send({ ready: true });
