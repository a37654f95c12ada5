import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { monotonicClock } from '../../src/clock.ts';
import { Deadline, Deadlines } from '../../src/failure/deadlines.ts';
import { ManualClock } from '../../src/index.ts';
import { turn } from '../rejections.ts';
import { pass, useFakeTime } from './fake-store.ts';

const LENGTH_MS = 50;

class Named extends Deadline {
  constructor(
    readonly name: string,
    private readonly ended: string[],
  ) {
    super();
  }

  override expire(): void {
    this.ended.push(this.name);
  }
}

beforeEach(useFakeTime);
afterEach(() => void vi.useRealTimers());

function setUp() {
  const ended: string[] = [];
  const deadlines = new Deadlines(monotonicClock, LENGTH_MS);
  const start = (name: string): Named => {
    const deadline = new Named(name, ended);
    deadlines.start(deadline);
    return deadline;
  };
  return { ended, deadlines, start };
}

it('deadlines expire after their length, in the order of their start', async () => {
  const { ended, start } = setUp();
  start('a');
  await pass(20);
  start('b');
  start('c');
  await pass(29);
  expect(ended).toEqual([]);
  await pass(1);
  expect(ended).toEqual(['a']);
  await pass(19);
  expect(ended).toEqual(['a']);
  await pass(1);
  expect(ended).toEqual(['a', 'b', 'c']);
});

it('a removed deadline never expires, whether oldest, newest or between', async () => {
  const { ended, deadlines, start } = setUp();
  const all = ['a', 'b', 'c', 'd', 'e'].map(start);
  for (const place of [0, 2, 4]) deadlines.end(all[place]);
  await pass(LENGTH_MS);
  expect(ended).toEqual(['b', 'd']);
  start('f');
  await pass(LENGTH_MS);
  expect(ended).toEqual(['b', 'd', 'f']);
});

it('after removals in any order, each other deadline expires once', async () => {
  for (let seed = 1; seed <= 200; seed++) {
    const { ended, deadlines, start } = setUp();
    const bit = (place: number): boolean => ((seed * 2_654_435_761) >>> place) % 2 === 1;
    const all = Array.from({ length: 16 }, (_, place) => start(String(place)));
    const removed = all.filter((_, place) => bit(place));
    if (seed % 2 === 0) removed.reverse();
    for (const deadline of removed) deadlines.end(deadline);
    await vi.advanceTimersByTimeAsync(LENGTH_MS);
    await turn();
    expect(ended).toEqual(all.filter((each) => !removed.includes(each)).map(({ name }) => name));
  }
});

it('all deadlines share one timer, and no timer runs without deadlines', async () => {
  const { deadlines, start } = setUp();
  expect(vi.getTimerCount()).toBe(0);
  const all = Array.from({ length: 1000 }, () => start('x'));
  expect(vi.getTimerCount()).toBe(1);
  for (const deadline of all) deadlines.end(deadline);
  await pass(LENGTH_MS);
  expect(vi.getTimerCount()).toBe(0);
  start('y');
  expect(vi.getTimerCount()).toBe(1);
  await pass(LENGTH_MS);
  expect(vi.getTimerCount()).toBe(0);
});

it('replies already in the sockets are read before a deadline expires', async () => {
  const clock = new ManualClock();
  const ended: string[] = [];
  const deadlines = new Deadlines(clock, LENGTH_MS);
  const replied = new Named('replied', ended);
  deadlines.start(replied);
  deadlines.start(new Named('silent', ended));
  clock.advance(LENGTH_MS + 10_000);
  expect(ended).toEqual([]);
  deadlines.end(replied);
  await turn();
  expect(ended).toEqual(['silent']);
});

it('a deadline that starts while others expire has its full length', async () => {
  const { ended, deadlines, start } = setUp();
  class Chained extends Named {
    override expire(): void {
      super.expire();
      start('next');
    }
  }
  deadlines.start(new Chained('first', ended));
  await pass(LENGTH_MS);
  expect(ended).toEqual(['first']);
  await pass(LENGTH_MS - 1);
  expect(ended).toEqual(['first']);
  await pass(1);
  expect(ended).toEqual(['first', 'next']);
});

it.each([-3_600_000, 3_600_000])(
  'setting the wall clock by %i ms changes no deadline',
  async (jumpMs) => {
    const { ended, start } = setUp();
    start('before');
    await pass(20);
    vi.setSystemTime(Date.now() + jumpMs);
    start('after');
    await pass(29);
    expect(ended).toEqual([]);
    await pass(1);
    expect(ended).toEqual(['before']);
    await pass(19);
    expect(ended).toEqual(['before']);
    await pass(1);
    expect(ended).toEqual(['before', 'after']);
  },
);

it('the timer runs for at most 50 ms after the last call, however long the deadline', async () => {
  const ended: string[] = [];
  const deadlines = new Deadlines(monotonicClock, 60_000);
  const last = new Named('last', ended);
  deadlines.start(last);
  await pass(30);
  deadlines.end(last);
  await pass(20);
  expect(vi.getTimerCount()).toBe(0);
  deadlines.start(new Named('silent', ended));
  await pass(59_999);
  expect(ended).toEqual([]);
  await pass(1);
  expect(ended).toEqual(['silent']);
});

it('deadlines that start and end one after another share a timer', async () => {
  const { deadlines, start } = setUp();
  const schedule = vi.spyOn(monotonicClock, 'schedule');
  for (let call = 0; call < 1000; call++) deadlines.end(start('x'));
  expect(schedule).toHaveBeenCalledTimes(1);
  schedule.mockRestore();
});
