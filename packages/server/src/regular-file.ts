/**
 * Reads files whose paths an operator has configured. Only regular files and links to them are
 * read: opening a FIFO blocks until a program writes to it, and reading a device may never end.
 */
import { constants, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * With O_NONBLOCK, a FIFO opens at once and can be rejected. The flag has no effect on regular
 * files.
 */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** Returns at most `maxBytes` from the start of the file. */
export async function readRegularFile(path: string, maxBytes: number): Promise<Buffer> {
  const file = await open(path, FLAGS);
  try {
    const found = await file.stat();
    if (!found.isFile()) throw notRegular(found);
    // A growing file is read up to its size at the start.
    const bytes = Buffer.allocUnsafe(Math.min(found.size, maxBytes));
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
