/**
 * Preloaded by a test (`--import`): once the file HUNG_MOUNT/hang exists, opening HUNG_MOUNT/config
 * blocks a thread of Node.js as a hung mount does, by a FIFO without a writer.
 */
import fs, { existsSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';

const folder = process.env.HUNG_MOUNT;
const { open } = fs.promises;
fs.promises.open = (path, ...rest) => {
  if (path !== join(folder, 'config.yaml') || !existsSync(join(folder, 'hang'))) {
    return open(path, ...rest);
  }
  writeFileSync(join(folder, 'is-hung'), '');
  return open(join(folder, 'fifo'), 'r');
};
syncBuiltinESMExports();
