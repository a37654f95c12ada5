/** Simulations of leases, see tools/simulate. `npm run simulate -- leases` runs more of them. */
import { describe, expect, it } from 'vitest';
import { FAULTS } from '../../../../tools/simulate/faults.ts';
import { type RunResult, simulateLeases } from '../../../../tools/simulate/leases.ts';

const RUNS = 200;
const MAX_MUTATED_RUNS = 1000;

async function resultsOf(count: number): Promise<RunResult[]> {
  const results: RunResult[] = [];
  for (let seed = 1; seed <= count; seed++) results.push(await simulateLeases(seed));
  return results;
}

/** Returns the first seed whose run exceeds a limit with a wrong rule of the store. */
async function firstExceeded(): Promise<number | undefined> {
  for (let seed = 1; seed <= MAX_MUTATED_RUNS; seed++) {
    const { exceeded } = await simulateLeases(seed, { mutation: 'grant' });
    if (exceeded.length > 0) return seed;
  }
  return undefined;
}

describe('simulated processes with leases', () => {
  it(`no window exceeds the limit in ${RUNS} simulations with faults`, async () => {
    const results = await resultsOf(RUNS);
    const failed = results.filter(({ exceeded, uncounted }) => exceeded.length + uncounted > 0);
    expect(failed).toEqual([]);
    const rare = FAULTS.filter(
      (fault) => results.filter(({ faults }) => faults[fault] > 0).length < RUNS / 20,
    );
    expect(rare, 'faults that occurred in few simulations').toEqual([]);
    const leased = results.reduce((sum, each) => sum + each.leased, 0);
    expect(leased, 'calls admitted with leases').toBeGreaterThan(20 * RUNS);
  });

  it('a simulation with the same seed gives the same result each time', async () => {
    expect(await simulateLeases(7)).toEqual(await simulateLeases(7));
  });

  it('entries dated at the grant of their lease exceed the limit in a simulation', async () => {
    expect(await firstExceeded()).toBeLessThanOrEqual(MAX_MUTATED_RUNS);
  });
});
