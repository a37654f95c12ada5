/**
 * Reads files that an operator names. Only regular files are read, and links to them: opening a
 * FIFO blocks until a program writes to it, and a device may never end.
 */
import { constants, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';

/** Without effect on regular files. A FIFO is opened at once, so that it can be rejected. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** Returns at most `mostBytes` from the beginning of the file. */
export async function readRegularFile(path: string, mostBytes: number): Promise<Buffer> {
  const file = await open(path, FLAGS);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw notRegular(found);
    // A file that grows is read up to the size that it had.
    const bytes = Buffer.allocUnsafe(Math.min(found.size, mostBytes));
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.subarray(0, length);
  } finally {
    await file.close();
  }
}

function notRegular(found: Stats): Error {
  if (found.isDirectory()) {
    const message = 'EISDIR: illegal operation on a directory';
    return Object.assign(new Error(message), { code: 'EISDIR' });
  }
  const kind = found.isFIFO() ? 'a FIFO' : found.isSocket() ? 'a socket' : 'a device';
  return Object.assign(new Error(`${kind}, which is not a regular file`), { code: 'ENOTFILE' });
}
