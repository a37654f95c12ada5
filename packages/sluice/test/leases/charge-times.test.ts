/** The times of charges that a process makes with a lease. */
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../src/clock.ts';
import { Lease } from '../../src/leases/lease.ts';

describe('the time of a leased charge', () => {
  it('a leased charge is not dated after the store time by a clock that is 1 % fast', () => {
    const monotonic = new ManualClock();
    const lease = new Lease(1, { monotonic, system: new ManualClock() });
    const sent = lease.now();
    lease.granted(lease.request(10, 250, 1000, sent), { units: 10, atMs: 5000 }, sent);
    for (let storeMs = 1; storeMs < 980; storeMs++) {
      monotonic.set(storeMs * 1.01);
      expect(lease.nowMs).toBeLessThanOrEqual(5000 + storeMs);
      expect(lease.nowMs).toBeGreaterThan(5000 + 0.98 * storeMs - 1);
    }
  });
});
