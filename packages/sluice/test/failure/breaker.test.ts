import { describe, expect, it } from 'vitest';
import { Breaker } from '../../src/failure/breaker.ts';
import { ManualClock } from '../../src/index.ts';

const START_MS = 1_745_000_100_000;

/** Creates a breaker without random variation, so that its pauses are the longest possible. */
function setUp(random: () => number = () => 0) {
  const clock = new ManualClock(START_MS);
  const breaker = new Breaker(clock, random);
  const fail = (times: number): void => {
    for (let time = 0; time < times; time++) breaker.failed('call');
  };
  /** `F` is a failure and `S` a success. */
  const see = (outcomes: string): void => {
    for (const outcome of outcomes) {
      if (outcome === 'F') breaker.failed('call');
      else breaker.succeeded('call');
    }
  };
  /** Returns the exact time until the breaker admits a probe, in ms. */
  const pauseMs = (): number => {
    for (let waited = 0; ; waited++) {
      if (breaker.admits() !== undefined) return waited;
      clock.advance(1);
    }
  };
  return { clock, breaker, fail, see, pauseMs };
}

describe('a closed breaker', () => {
  it('a closed breaker admits every call', () => {
    const { breaker } = setUp();
    expect(breaker.state).toBe('closed');
    for (let call = 0; call < 100; call++) expect(breaker.admits()).toBe('call');
  });

  it('a breaker opens after exactly five consecutive failures', () => {
    const { breaker, fail } = setUp();
    fail(4);
    expect(breaker.state).toBe('closed');
    fail(1);
    expect(breaker.state).toBe('open');
  });

  it('a success resets the count of consecutive failures', () => {
    const { breaker, see } = setUp();
    see('SSSSSSSSSSFFFFSFFFF');
    expect(breaker.state).toBe('closed');
  });

  it('a breaker opens when half of the last 20 calls failed', () => {
    const { breaker, see } = setUp();
    see('SF'.repeat(9));
    see('S');
    expect(breaker.state).toBe('closed');
    see('F');
    expect(breaker.state).toBe('open');
  });

  it('a breaker does not open if half of fewer than 20 calls failed', () => {
    const { breaker, see } = setUp();
    see('FFFFSFFFFSFFFFSFFFF');
    expect(breaker.state).toBe('closed');
    see('S');
    expect(breaker.state).toBe('closed');
    see('F');
    expect(breaker.state).toBe('open');
  });

  it('a breaker stays closed at 9 failures of 20', () => {
    const { breaker, see } = setUp();
    see('SS');
    see('FSFSFSFSFSFSFSFSFSSS'.repeat(50));
    expect(breaker.state).toBe('closed');
  });

  it('a breaker ignores outcomes more than 20 calls ago', () => {
    const { breaker, see } = setUp();
    see(`${'FFFFS'.repeat(3)}${'S'.repeat(20)}`);
    see('FSFSFSFSFSFSFSFSFS');
    expect(breaker.state).toBe('closed');
  });
});

describe('an open breaker', () => {
  it('an open breaker admits no call for 250 ms, then one probe until the probe ends', () => {
    const { clock, breaker, fail } = setUp();
    fail(5);
    clock.advance(249);
    expect([breaker.admits(), breaker.state, breaker.waitMs]).toEqual([undefined, 'open', 1]);
    clock.advance(1);
    expect(breaker.admits()).toBe('probe');
    expect(breaker.state).toBe('probing');
    clock.advance(60_000);
    expect([breaker.admits(), breaker.admits()]).toEqual([undefined, undefined]);
  });

  it('waitMs of a breaker is the time until the next probe, at least 1 ms', () => {
    const { clock, breaker, fail } = setUp();
    expect(breaker.waitMs).toBe(1);
    fail(5);
    expect(breaker.waitMs).toBe(250);
    clock.advance(100);
    expect(breaker.waitMs).toBe(150);
    clock.advance(500);
    expect(breaker.waitMs).toBe(1);
  });

  it('the pause of a breaker doubles after each failed probe, up to 1 s', () => {
    const { breaker, fail, pauseMs } = setUp();
    fail(5);
    const pauses = Array.from({ length: 5 }, () => {
      const waitedMs = pauseMs();
      breaker.failed('probe');
      return waitedMs;
    });
    expect(pauses).toEqual([250, 500, 1000, 1000, 1000]);
  });

  it('one successful probe closes the breaker and resets the pause', () => {
    const { breaker, fail, pauseMs } = setUp();
    fail(5);
    for (let probe = 0; probe < 3; probe++) {
      pauseMs();
      breaker.failed('probe');
    }
    pauseMs();
    breaker.succeeded('probe');
    expect([breaker.state, breaker.admits(), breaker.admits()]).toEqual(['closed', 'call', 'call']);
    fail(4);
    expect(breaker.state).toBe('closed');
    fail(1);
    expect(pauseMs()).toBe(250);
  });

  it('a successful probe clears the earlier failures', () => {
    const { breaker, see, pauseMs } = setUp();
    see(`${'SF'.repeat(7)}SFFFFF`);
    pauseMs();
    breaker.succeeded('probe');
    see('FFFFS'.repeat(3));
    expect(breaker.state).toBe('closed');
  });

  it('the pause of a breaker is shortened at random by up to a quarter', () => {
    const chances = [0, 0.25, 0.5, 0.75, 0.999999];
    const pauses = chances.map((chance) => {
      const { fail, pauseMs } = setUp(() => chance);
      fail(5);
      return pauseMs();
    });
    expect(pauses).toEqual([250, 235, 219, 204, 188]);
  });

  it('with Math.random, the first pause of a breaker has 188 to 250 ms', () => {
    const seen = new Set<number>();
    for (let time = 0; time < 300; time++) {
      const { breaker, fail, pauseMs } = setUp(Math.random);
      fail(5);
      const first = pauseMs();
      breaker.failed('probe');
      const second = pauseMs();
      seen.add(first);
      expect(first).toBeGreaterThanOrEqual(188);
      expect(first).toBeLessThanOrEqual(250);
      expect(second).toBeGreaterThanOrEqual(375);
      expect(second).toBeLessThanOrEqual(500);
    }
    expect(seen.size).toBeGreaterThan(20);
  });

  it('calls in flight when the breaker opens have no effect on the breaker', () => {
    const { clock, breaker, fail, see } = setUp();
    fail(5);
    see('SSSSS');
    expect(breaker.state).toBe('open');
    clock.advance(240);
    see('FFFFFFFFFF');
    clock.advance(10);
    expect(breaker.admits()).toBe('probe');
    see('SSSSSFFFFF');
    expect(breaker.state).toBe('probing');
  });

  it('after an inconclusive probe, the next call is the probe', () => {
    const { clock, breaker, fail } = setUp();
    fail(5);
    clock.advance(250);
    expect(breaker.admits()).toBe('probe');
    breaker.inconclusive('probe');
    expect(breaker.state).toBe('open');
    expect(breaker.admits()).toBe('probe');
    breaker.failed('probe');
    clock.advance(499);
    expect(breaker.admits()).toBe(undefined);
  });

  it('an inconclusive call is not counted as a success', () => {
    const { breaker, fail } = setUp();
    fail(4);
    breaker.inconclusive('call');
    fail(1);
    expect(breaker.state).toBe('open');
  });
});

describe('a breaker whose client has connected', () => {
  it('after the client has connected, the next call is the probe, without a pause', () => {
    const { breaker, fail } = setUp();
    fail(5);
    expect(breaker.admits()).toBe(undefined);
    breaker.ready();
    expect(breaker.waitMs).toBe(1);
    expect([breaker.admits(), breaker.admits()]).toEqual(['probe', undefined]);
  });

  it('if the client connects during a probe that fails, the next probe has no pause', () => {
    const { clock, breaker, fail } = setUp();
    fail(5);
    clock.advance(250);
    expect(breaker.admits()).toBe('probe');
    breaker.ready();
    breaker.failed('probe');
    expect(breaker.admits()).toBe('probe');
    breaker.failed('probe');
    expect(breaker.waitMs).toBe(1000);
  });

  it('a connection of the client does not shorten the pause of a later outage', () => {
    const { breaker, fail } = setUp();
    breaker.ready();
    expect(breaker.admits()).toBe('call');
    fail(5);
    expect(breaker.waitMs).toBe(250);
  });
});

describe('an open breaker without calls', () => {
  it('an idle open breaker reports closed after 30 s, and the next call is a probe', () => {
    const { clock, breaker, fail } = setUp();
    fail(5);
    clock.advance(250 + 29_999);
    expect(breaker.state).toBe('open');
    clock.advance(1);
    expect(breaker.state).toBe('closed');
    expect([breaker.admits(), breaker.admits()]).toEqual(['probe', undefined]);
    breaker.failed('probe');
    expect(breaker.state).toBe('open');
  });
});
