/** Nothing that fails may go unheard: a rejection without a listener ends a process. */
import { afterAll, expect } from 'vitest';

/** A turn of the real event loop, after which all that was ready has happened. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** At the end of the file, nothing must have been rejected without anybody to hear of it. */
export function expectNoUnhandledRejections(): void {
  const heard: unknown[] = [];
  const listen = (reason: unknown): void => void heard.push(reason);
  process.on('unhandledRejection', listen);
  afterAll(async () => {
    await turn();
    await turn();
    process.off('unhandledRejection', listen);
    expect(heard).toEqual([]);
  });
}
