import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { machineMs } from '../../tools/admissions.mjs';
import { atFullSpeed, atRate } from '../leases/load.mjs';

const RUN_MS = 60;

/** Returns the options of a run that begins now. */
function now(options: object) {
  const startMs = machineMs();
  return { ...options, startMs, endMs: startMs + RUN_MS };
}

const unitsOf = (log: number[]): number =>
  log.reduce((sum, number, at) => (at % 3 === 2 ? sum + number : sum), 0);

describe('the load of the lease benchmark', () => {
  it('atFullSpeed logs all admissions, and counts denials of calls that fit', async () => {
    let calls = 0;
    const call = async () => {
      calls++;
      if (calls % 4 === 0) return { allowed: false, remaining: calls % 8 === 0 ? 0 : 1 };
      return { allowed: true, leased: calls % 4 === 1 };
    };
    const results = await atFullSpeed(call, now({ callers: 4 }));
    const { decisions, admitted, leased, unexplained, log } = results;
    expect(decisions).toBe(calls);
    expect(admitted).toBe(calls - Math.floor(calls / 4));
    expect(leased).toBe(Math.ceil(calls / 4));
    expect(unexplained).toBe(Math.ceil(Math.floor(calls / 4) / 2));
    expect(unitsOf(log)).toBe(admitted);
  });

  it('atRate makes no more calls than the rate, and waits for their results', async () => {
    let [made, ended] = [0, 0];
    const call = async () => {
      made++;
      await sleep(10);
      ended++;
      return { allowed: true };
    };
    const { admitted, log } = await atRate(call, now({ perSecond: 2000 }));
    expect(made).toBeGreaterThan(0);
    expect(ended).toBe(made);
    expect(admitted).toBe(made);
    expect(unitsOf(log)).toBe(made);
  });
});
