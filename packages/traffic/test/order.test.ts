/** Lines that are not in order, and clocks that are wrong. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Entry } from '../src/entry.ts';
import { CONFIRMING_LINES, FAR_MS, type OrderCounts, Orderer } from '../src/order.ts';
import { RUNS, START_MS } from './reading.ts';

const LATENESS_MS = 10_000;
const LINES = 100_000;

/** Creates an entry whose user is its place in the input. */
const entryAt = (timeMs: number, place: number): Entry => ({
  ...{ timeMs, client: '192.0.2.1', method: 'GET', path: '/', search: '', host: '', status: 200 },
  ...{ bytes: 0, user: String(place), field: () => undefined },
});

interface Ordered {
  readonly counts: OrderCounts;
  readonly times: readonly number[];
  /** Places of the entries in the input, in the order of the output. */
  readonly places: readonly number[];
}

/** `cut` is the number of entries added at once. */
function order(
  times: readonly number[],
  latenessMs = LATENESS_MS,
  cut = times.length || 1,
): Ordered {
  const counts: OrderCounts = { moved: 0, late: 0, early: 0, gaps: 0 };
  const orderer = new Orderer(counts, { latenessMs });
  const entries = times.map(entryAt);
  const out: Entry[] = [];
  for (let at = 0; at < entries.length; at += cut) {
    out.push(...orderer.add(entries.slice(at, at + cut)));
  }
  out.push(...orderer.end());
  return {
    counts,
    times: out.map(({ timeMs }) => timeMs),
    places: out.map(({ user }) => Number(user)),
  };
}

const offsets = (times: readonly number[]): number[] => times.map((timeMs) => timeMs - START_MS);
const from = (...offsetsMs: readonly number[]): number[] =>
  offsetsMs.map((each) => START_MS + each);
const increases = (times: readonly number[]): boolean =>
  times.every((timeMs, at) => at === 0 || timeMs >= times[at - 1]);

describe('lines that are late within the bound', () => {
  it('late lines are sorted, and lines of the same time keep their order', () => {
    const { times, places, counts } = order(from(0, 5000, 3000, 5000, 3000, 9000));
    expect(offsets(times)).toEqual([0, 3000, 3000, 5000, 5000, 9000]);
    expect(places).toEqual([0, 2, 4, 1, 3, 5]);
    expect(counts).toEqual({ moved: 2, late: 0, early: 0, gaps: 0 });
  });

  it('a line may be late by exactly the bound', () => {
    expect(order(from(LATENESS_MS, 0)).counts).toMatchObject({ moved: 1, late: 0 });
    expect(order(from(LATENESS_MS + 1, 0)).counts).toMatchObject({ moved: 0, late: 1 });
  });

  it('a line is returned as soon as no earlier one can follow', () => {
    const orderer = new Orderer({ moved: 0, late: 0, early: 0, gaps: 0 }, { latenessMs: 1000 });
    const add = (...entries: Entry[]) => offsets(orderer.add(entries).map((each) => each.timeMs));
    expect(add(entryAt(START_MS, 0))).toEqual([]);
    expect(add(entryAt(START_MS + 999, 1))).toEqual([]);
    expect(add(entryAt(START_MS + 1000, 2))).toEqual([0]);
    expect(add(entryAt(START_MS + 500, 3))).toEqual([]);
    expect(add(entryAt(START_MS + 2000, 4))).toEqual([500, 999, 1000]);
    expect(offsets(orderer.end().map((each) => each.timeMs))).toEqual([2000]);
  });

  it('lines in any order within the bound are sorted', () => {
    const delays = fc.array(
      fc.record({
        afterMs: fc.integer({ min: 0, max: 4000 }),
        heldMs: fc.integer({ min: 0, max: LATENESS_MS }),
      }),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(delays, fc.integer({ min: 1, max: 50 }), (steps, cut) => {
        let timeMs = START_MS;
        const written = steps
          .map(({ afterMs, heldMs }) => {
            timeMs += afterMs;
            return { timeMs, writtenMs: timeMs + heldMs };
          })
          .toSorted((one, other) => one.writtenMs - other.writtenMs);
        const times = written.map((each) => each.timeMs);
        const ordered = order(times, LATENESS_MS, cut);
        expect(ordered.times).toEqual(times.toSorted((one, other) => one - other));
        expect(ordered.counts.late).toBe(0);
      }),
      { numRuns: RUNS },
    );
  });
});

describe('lines that are late beyond the bound', () => {
  it('a line beyond the bound counts as late and takes the latest time reached', () => {
    const { times, counts } = order(from(0, 60_000, 1000, 60_500, 70_000));
    expect(offsets(times)).toEqual([0, 50_000, 60_000, 60_500, 70_000]);
    expect(counts).toMatchObject({ moved: 0, late: 1 });
  });

  it('lines of a clock that is an hour behind all take the latest time reached', () => {
    const hourBehind = Array.from({ length: 50 }, (_, at) => at * 1000 - 3_600_000);
    const { times, counts } = order(from(0, ...hourBehind, 1000));
    expect(counts).toMatchObject({ late: 50, moved: 0 });
    expect(offsets(times)).toEqual([...Array(50).fill(-10_000), 0, 1000]);
  });

  it('with a bound of 0, every line out of order is late', () => {
    const { times, counts } = order(from(0, 2, 1, 2, 3), 0);
    expect(offsets(times)).toEqual([0, 2, 2, 2, 3]);
    expect(counts).toMatchObject({ late: 1, moved: 0 });
  });
});

describe('a line more than a day ahead', () => {
  const far = FAR_MS + 1;

  it('a line far ahead of its successors takes the latest time reached', () => {
    const { times, counts } = order(from(0, 1000, far + 1000, 2000, 3000));
    expect(offsets(times)).toEqual([0, 1000, 1000, 2000, 3000]);
    expect(counts).toEqual({ moved: 0, late: 0, early: 1, gaps: 0 });
  });

  it('a line exactly a day ahead is accepted, and earlier ones after it are late', () => {
    const { times, counts } = order(from(0, FAR_MS, 1000));
    expect(counts).toEqual({ moved: 0, late: 1, early: 0, gaps: 0 });
    expect(increases(times)).toBe(true);
  });

  it('the time of a log jumps ahead if enough lines confirm the jump', () => {
    const later = Array.from({ length: CONFIRMING_LINES }, (_, at) => far + at);
    const { times, counts } = order(from(0, ...later, 5));
    expect(offsets(times).slice(0, 3)).toEqual([0, far - 1 - (LATENESS_MS - 100), far]);
    expect(counts).toEqual({ moved: 0, late: 1, early: 0, gaps: 1 });
  });

  it('the time of a log does not jump ahead with one confirming line too few', () => {
    const later = Array.from({ length: CONFIRMING_LINES - 1 }, (_, at) => far + at);
    const { counts } = order(from(0, ...later, 5));
    expect(counts).toEqual({ moved: 0, late: 0, early: CONFIRMING_LINES - 1, gaps: 0 });
  });

  it('the time of a log jumps ahead if the log ends after the jump', () => {
    const { times, counts } = order(from(0, far, far + 5));
    expect(offsets(times)).toEqual([0, far, far + 5]);
    expect(counts).toEqual({ moved: 0, late: 0, early: 0, gaps: 1 });
  });

  it('a log with a line every other day keeps its times', () => {
    const times = Array.from({ length: 250 }, (_, at) => START_MS + 2 * FAR_MS * at);
    const ordered = order(times, undefined, 7);
    expect(ordered.times).toEqual(times);
    expect(ordered.counts).toEqual({ moved: 0, late: 0, early: 0, gaps: 249 });
  });

  it('repeated lines far ahead do not change the time of the others', () => {
    const pairs = Array.from({ length: 100 }, (_, at) => [at * 100, far * 365 + at]);
    const { times, counts } = order(from(...pairs.flat(), 10_000));
    expect(counts).toEqual({ moved: 0, late: 0, early: 100, gaps: 0 });
    expect(offsets(times).at(-1)).toBe(10_000);
  });
});

describe('Orderer with arbitrary clocks', () => {
  const steps = fc.oneof(
    { weight: 8, arbitrary: fc.integer({ min: -12_000, max: 15_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: -400 * FAR_MS, max: 400 * FAR_MS }) },
  );

  it('the orderer returns every entry, with times that never decrease', () => {
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 400 }), (offsetsMs) => {
        let timeMs = START_MS;
        const times = offsetsMs.map((step) => (timeMs += step));
        const ordered = order(times, undefined, 17);
        expect(increases(ordered.times)).toBe(true);
        expect(ordered.places.toSorted((one, other) => one - other)).toEqual(
          times.map((_, at) => at),
        );
      }),
      { numRuns: RUNS },
    );
  });

  it('the result of the orderer does not depend on the batch size', () => {
    const cuts = fc.integer({ min: 1, max: 100 });
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 300 }), cuts, cuts, (offsetsMs, one, other) => {
        let timeMs = START_MS;
        const times = offsetsMs.map((step) => (timeMs += step));
        expect(order(times, undefined, one)).toEqual(order(times, undefined, other));
      }),
      { numRuns: RUNS },
    );
  });

  it('the orderer holds a bounded number of entries and sorts them', () => {
    const counts: OrderCounts = { moved: 0, late: 0, early: 0, gaps: 0 };
    const orderer = new Orderer(counts, { bound: { lines: LINES, bytes: 2 ** 30 } });
    const out: number[] = [];
    const count = 3 * LINES;
    let inside = 0;
    for (let at = 0; at < count; at += 1000) {
      // Neighbours are swapped.
      const batch = Array.from({ length: 1000 }, (_, n) => entryAt(START_MS + ((at + n) ^ 1), n));
      const ready = orderer.add(batch);
      inside += batch.length - ready.length;
      expect(inside).toBeLessThan(LINES + 10_000);
      for (const { timeMs } of ready) out.push(timeMs);
    }
    for (const { timeMs } of orderer.end()) out.push(timeMs);
    expect(out).toEqual(Array.from({ length: count }, (_, at) => START_MS + at));
    expect(counts.late).toBe(0);
    expect(counts.moved).toBe(count / 2);
  });

  it.each([-1, Number.NaN])('the orderer rejects a lateness bound of %d', (latenessMs) => {
    const counts = { moved: 0, late: 0, early: 0, gaps: 0 };
    expect(() => new Orderer(counts, { latenessMs })).toThrow(
      /Expected `latenessMs` to be 0 or more/,
    );
  });
});

describe('sorting without a lateness bound', () => {
  const sortAll = (times: readonly number[], bound = { lines: 200_000, bytes: 2 ** 26 }) => {
    const counts: OrderCounts = { moved: 0, late: 0, early: 0, gaps: 0 };
    const orderer = new Orderer(counts, { bound });
    const out = [...orderer.add(times.map(entryAt), 100 * times.length), ...orderer.end()];
    return { counts, times: out.map(({ timeMs }) => timeMs), maxLateMs: orderer.maxLateMs };
  };
  const ascending = (times: readonly number[]): number[] => times.toSorted((a, b) => a - b);

  it('lines in random order within an hour are sorted', () => {
    const times = Array.from({ length: 5000 }, (_, at) => START_MS + ((at * 7919) % 3_600_000));
    const sorted = sortAll(times);
    expect(sorted.times).toEqual(ascending(times));
    expect(sorted.counts).toMatchObject({ late: 0, early: 0 });
  });

  it('logs that are concatenated in the wrong order are sorted', () => {
    const day = (number: number) =>
      Array.from({ length: 200 }, (_, at) => START_MS + number * 2 * FAR_MS + at);
    const times = [...day(2), ...day(0), ...day(1)];
    const sorted = sortAll(times);
    expect(sorted.times).toEqual(ascending(times));
    expect(sorted.counts).toMatchObject({ late: 0, early: 0 });
  });

  it('a reversed log is sorted', () => {
    const times = Array.from({ length: 3000 }, (_, at) => START_MS - 60_000 * at);
    expect(sortAll(times).times).toEqual(ascending(times));
  });

  it('single lines more than a day behind count as late', () => {
    const { times, counts, maxLateMs } = sortAll(from(0, 1000, -2 * FAR_MS, 2000));
    expect(offsets(times)).toEqual([0, 1000, 1000, 2000]);
    expect(counts).toMatchObject({ late: 1, early: 0 });
    expect(maxLateMs).toBe(2 * FAR_MS + 1000);
  });

  it.each([
    ['lines', { lines: 10_000, bytes: 2 ** 30 }],
    ['bytes', { lines: 200_000, bytes: 1_000_000 }],
  ])('lines that come later than the bound in %s are late', (_, bound) => {
    const many = Array.from({ length: 30_000 }, (_, at) => START_MS + 10 * at);
    const { counts, times } = sortAll([...many, START_MS], bound);
    expect(counts.late).toBe(1);
    expect(increases(times)).toBe(true);
  });
});
