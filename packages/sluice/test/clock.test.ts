import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { monotonicClock, scheduleInBackground } from '../src/clock.ts';
import { ManualClock, systemClock } from '../src/index.ts';

const DAY_MS = 86_400_000;

describe('ManualClock', () => {
  /** Returns a clock, and a list of the timers that fired, with their times. */
  function clockAt(startMs: number) {
    const clock = new ManualClock(startMs);
    const woken: [name: string, atMs: number][] = [];
    const sleep = (name: string, delayMs: number, then = () => {}) =>
      clock.schedule(delayMs, () => {
        woken.push([name, clock.now()]);
        then();
      });
    return { clock, woken, sleep };
  }

  it('ManualClock starts at 0 by default and does not move', () => {
    expect(new ManualClock().now()).toBe(0);
    const { clock } = clockAt(1_000);
    expect([clock.now(), clock.now()]).toEqual([1_000, 1_000]);
  });

  it('advance moves by exactly its argument, with or without timers', () => {
    const { clock, sleep } = clockAt(1_000);
    clock.advance(250);
    expect(clock.now()).toBe(1_250);
    sleep('a', 30);
    clock.advance(100);
    expect(clock.now()).toBe(1_350);
    clock.advance(0);
    expect(clock.now()).toBe(1_350);
  });

  it('advance fires timers at their own times, earliest first', () => {
    const { clock, woken, sleep } = clockAt(1_000);
    sleep('late', 30);
    sleep('early', 10);
    sleep('middle', 20);
    sleep('never', 101);
    clock.advance(100);
    expect(woken).toEqual([
      ['early', 1_010],
      ['middle', 1_020],
      ['late', 1_030],
    ]);
  });

  it('timers due at the same time fire in the order of scheduling', () => {
    const { clock, woken, sleep } = clockAt(0);
    sleep('other', 5);
    for (const name of ['a', 'b', 'c']) sleep(name, 10);
    clock.advance(4);
    sleep('d', 6);
    clock.advance(6);
    expect(woken.map(([name]) => name)).toEqual(['other', 'a', 'b', 'c', 'd']);
  });

  it('a timer fires once, at its due time and not 1 ms earlier', () => {
    const { clock, woken, sleep } = clockAt(0);
    sleep('a', 10);
    clock.advance(9);
    expect(woken).toEqual([]);
    clock.advance(1);
    expect(woken).toEqual([['a', 10]]);
    clock.advance(100);
    expect(woken).toHaveLength(1);
  });

  it('schedule fires no timer itself, even with a delay of 0', () => {
    const { clock, woken, sleep } = clockAt(5);
    sleep('a', 0);
    expect(woken).toEqual([]);
    clock.advance(0);
    expect(woken).toEqual([['a', 5]]);
  });

  it('a timer that is scheduled again fires in the same advance if due', () => {
    const { clock, woken, sleep } = clockAt(0);
    const again = (): void => {
      sleep('again', 10, again);
    };
    again();
    clock.advance(35);
    expect(woken.map(([, atMs]) => atMs)).toEqual([10, 20, 30]);
    expect(clock.now()).toBe(35);
  });

  it('a cancelled timer does not fire', () => {
    const { clock, woken, sleep } = clockAt(0);
    const cancel = sleep('a', 10);
    sleep('b', 10);
    cancel();
    cancel();
    clock.advance(10);
    expect(woken).toEqual([['b', 10]]);
  });

  it('a timer cancelled by another of the same time does not fire', () => {
    const { clock, woken, sleep } = clockAt(0);
    let cancel = () => {};
    sleep('a', 10, () => cancel());
    cancel = sleep('b', 10);
    sleep('c', 10);
    clock.advance(10);
    expect(woken.map(([name]) => name)).toEqual(['a', 'c']);
  });

  it('ManualClock.set fires no timers, back or forward', () => {
    const { clock, woken, sleep } = clockAt(1_000);
    sleep('a', 10);
    clock.set(500);
    expect([clock.now(), woken]).toEqual([500, []]);
    clock.set(2_000);
    expect([clock.now(), woken]).toEqual([2_000, []]);
  });

  it('after ManualClock.set, timers fire by the new time', () => {
    const { clock, woken, sleep } = clockAt(1_000);
    sleep('a', 10);
    clock.set(500);
    clock.advance(509);
    expect(woken).toEqual([]);
    clock.advance(1);
    expect(woken).toEqual([['a', 1_010]]);
    sleep('b', 10);
    clock.set(3_000);
    clock.advance(1);
    expect(woken.slice(1)).toEqual([['b', 3_000]]);
    expect(clock.now()).toBe(3_001);
  });
});

describe('systemClock', () => {
  const START_MS = 1_745_000_000_000;

  beforeEach(() => {
    vi.useFakeTimers({ now: START_MS });
  });

  afterEach(() => {
    // First the spies: restoring one later would bring back the fake function that it replaced.
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it('systemClock reads Date.now at each call', () => {
    expect(systemClock.now()).toBe(START_MS);
    vi.setSystemTime(START_MS + 5);
    expect(systemClock.now()).toBe(START_MS + 5);
    const now = vi.spyOn(Date, 'now').mockReturnValue(42);
    expect(systemClock.now()).toBe(42);
    now.mockRestore();
    expect(systemClock.now()).toBe(START_MS + 5);
  });

  it.each([1, 1_000, 2 ** 31 - 1, 2 ** 31, 60 * DAY_MS, 400 * DAY_MS])(
    'a systemClock timer fires once, after %d ms and not before',
    (delayMs) => {
      const wake = vi.fn();
      systemClock.schedule(delayMs, wake);
      expect(wake).not.toHaveBeenCalled();
      vi.advanceTimersByTime(delayMs - 1);
      expect(wake).not.toHaveBeenCalled();
      vi.advanceTimersByTime(1);
      expect(wake).toHaveBeenCalledTimes(1);
      vi.advanceTimersByTime(500 * DAY_MS);
      expect(wake).toHaveBeenCalledTimes(1);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it('systemClock never sets a timer longer than setTimeout supports', () => {
    const arm = vi.spyOn(globalThis, 'setTimeout');
    systemClock.schedule(60 * DAY_MS, () => {});
    vi.advanceTimersByTime(60 * DAY_MS);
    const delays = arm.mock.calls.map(([, delayMs]) => delayMs as number);
    expect(delays).toEqual([2 ** 31 - 1, 2 ** 31 - 1, 60 * DAY_MS - 2 * (2 ** 31 - 1)]);
  });

  it('systemClock fires after a delay of 0, but not inside schedule', () => {
    const wake = vi.fn();
    systemClock.schedule(0, wake);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(0);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  it.each([
    ['at once', 1_000, 0],
    ['in the first slice of a long wait', 60 * DAY_MS, DAY_MS],
    ['in a later slice of a long wait', 60 * DAY_MS, 59 * DAY_MS],
  ])('systemClock does not fire a timer that was cancelled %s', (_when, delayMs, cancelledMs) => {
    const wake = vi.fn();
    const cancel = systemClock.schedule(delayMs, wake);
    vi.advanceTimersByTime(cancelledMs);
    cancel();
    cancel();
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(100 * DAY_MS);
    expect(wake).not.toHaveBeenCalled();
  });

  it('a systemClock timer does not fire early if setTimeout fires early', () => {
    const wake = vi.fn();
    systemClock.schedule(1_000, wake);
    vi.setSystemTime(START_MS - 1);
    vi.advanceTimersByTime(1_000);
    expect(systemClock.now()).toBe(START_MS + 999);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  it('systemClock fires after the delay if the clock was set back', () => {
    const wake = vi.fn();
    systemClock.schedule(10_000, wake);
    vi.advanceTimersByTime(4_000);
    vi.setSystemTime(START_MS - 3_600_000);
    vi.advanceTimersByTime(5_999);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  it('systemClock waits longer if the timer is 1 ms ahead of the wall clock', () => {
    const wake = vi.fn();
    systemClock.schedule(10_000, wake);
    vi.advanceTimersByTime(9_000);
    vi.setSystemTime(START_MS + 8_999);
    vi.advanceTimersByTime(1_000);
    expect(wake).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
  });

  it('systemClock fires after the delay at the latest if the clock was set forward', () => {
    const wake = vi.fn();
    systemClock.schedule(10_000, wake);
    vi.setSystemTime(START_MS + DAY_MS);
    vi.advanceTimersByTime(10_000);
    expect(wake).toHaveBeenCalledTimes(1);
  });
});

describe('the monotonic clock', () => {
  it('the monotonic clock is not affected by setting the wall clock', () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const before = monotonicClock.now();
    vi.setSystemTime(Date.now() - 86_400_000);
    const between = monotonicClock.now();
    vi.setSystemTime(Date.now() + 2 * 86_400_000);
    const after = monotonicClock.now();
    vi.useRealTimers();
    expect(between).toBeGreaterThanOrEqual(before);
    expect(after).toBeGreaterThanOrEqual(between);
    expect(after - before).toBeLessThan(3_600_000);
  });

  it('the monotonic clock fires after the delay unless cancelled', async () => {
    const startMs = monotonicClock.now();
    const cancelled = vi.fn();
    monotonicClock.schedule(1.5, cancelled)();
    await new Promise<void>((resolve) => void monotonicClock.schedule(10.5, resolve));
    expect(monotonicClock.now() - startMs).toBeGreaterThan(9);
    expect(cancelled).not.toHaveBeenCalled();
  });
});

it('scheduleInBackground does not keep the process alive', () => {
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const stop = scheduleInBackground(60_000, () => {});
  expect(timers()).toBe(before);
  const stopOther = monotonicClock.schedule(60_000, () => {});
  expect(timers()).toBe(before + 1);
  stop();
  stopOther();
});
