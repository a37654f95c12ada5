/** A key report with the given fields. */
import type { KeyReport } from '../../src/api/types.ts';

export const report = (fields: Partial<KeyReport>): KeyReport => ({
  ...{ policy: 'p', key: 'a', held: true, algorithm: 'sliding-log', limit: 10 },
  ...{ windowMs: 60_000, used: 0, remaining: 10, resetAfterMs: 0, cells: [], entries: [] },
  ...{ entryCount: 0, atMs: 0, nextMs: 0 },
  ...fields,
});
