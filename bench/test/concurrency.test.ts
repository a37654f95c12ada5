import { describe, expect, it } from 'vitest';
import { countCommands, handOvers, jain, mostAtOnce } from '../concurrency/figures.mjs';

const jobs = [
  { startMs: 30, endMs: 40 },
  { startMs: 0, endMs: 10 },
  { startMs: 12, endMs: 29 },
];

describe('figures of concurrency limits', () => {
  it('handOvers pairs each end with the start that takes its slot', () => {
    expect(handOvers(jobs, 1, 0)).toEqual([2, 1]);
    expect(handOvers([...jobs, { startMs: 1, endMs: 11 }], 2, 0)).toEqual([2, 19]);
  });

  it('handOvers ignores ends before all jobs waited', () => {
    expect(handOvers(jobs, 1, 11)).toEqual([1]);
  });

  it('mostAtOnce counts jobs that overlap, but not one that starts when another ends', () => {
    expect(mostAtOnce(jobs)).toBe(1);
    expect(mostAtOnce([...jobs, { startMs: 29, endMs: 31 }])).toBe(2);
  });

  it('jain is 1 for equal shares and 1 / n if one flow has everything', () => {
    expect(jain([10, 10, 10, 10])).toBe(1);
    expect(jain([7, 0, 0, 0])).toBe(0.25);
  });

  it('countCommands separates commands that were sent from those inside scripts', () => {
    const info = [
      '# Commandstats',
      'cmdstat_evalsha:calls=30,usec=300,usec_per_call=10.00,rejected_calls=0,failed_calls=0',
      'cmdstat_set:calls=2,usec=3,usec_per_call=1.00,rejected_calls=0,failed_calls=0',
      'cmdstat_zadd:calls=25,usec=60,usec_per_call=2.00,rejected_calls=0,failed_calls=0',
      'cmdstat_config|resetstat:calls=1,usec=6,usec_per_call=2.00,rejected_calls=0,failed_calls=0',
    ].join('\r\n');
    expect(countCommands(info)).toEqual({ sent: 32, inScripts: 25 });
  });
});
