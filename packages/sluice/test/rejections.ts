/** Detects unhandled rejections, which end a Node process. */
import { afterAll, expect } from 'vitest';

/** Resolves after one turn of the event loop. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Expects at the end of the test file that there were no unhandled rejections. */
export function expectNoUnhandledRejections(): void {
  const reasons: unknown[] = [];
  const listen = (reason: unknown): void => void reasons.push(reason);
  process.on('unhandledRejection', listen);
  afterAll(async () => {
    await turn();
    await turn();
    process.off('unhandledRejection', listen);
    expect(reasons).toEqual([]);
  });
}
