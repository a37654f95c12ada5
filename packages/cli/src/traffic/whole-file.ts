/** Files that are there whole or not at all. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { Failure, visible } from '../output.ts';

/** Writes beside the place and then puts it there, so that a failure leaves what was there. */
export async function writeWhole(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}.part`;
  try {
    await writeFile(unfinished, text);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Failure(`Expected to write \`${visible(path)}\`, got ${code ?? message}`);
  }
}
