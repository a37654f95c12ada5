import { describe, expect, it } from 'vitest';
import { createLimiter, ManualClock, type Receipt } from '../../src/index.ts';
import { EntrySlab } from '../../src/stores/memory/slab.ts';
import { collect, stateOf } from './table-model.ts';

const START_MS = 1_745_000_100_000;
const LONG = 100_000;
const SHORT = 1000;
const WINDOW_MS = 10 * LONG;

/** A limiter with one full log, an entry a millisecond. */
function logOf(entries: number) {
  const clock = new ManualClock(START_MS);
  const policies = { p: { algorithm: 'sliding-log', limit: entries, window: WINDOW_MS } } as const;
  const limiter = createLimiter({ policies, clock });
  const receipts: Receipt[] = [];
  const check = () => {
    clock.advance(1);
    const { receipt } = limiter.checkSync('p', 'a');
    if (receipt !== undefined) receipts.push(receipt);
  };
  while (receipts.length < entries) check();
  return { clock, limiter, receipts, check };
}

/** Returns the shortest of many times in ms, which other processes disturbed least. */
function shortest(times: number, call: (time: number) => void): number {
  let least = Number.POSITIVE_INFINITY;
  for (let time = 0; time < times; time++) {
    const start = performance.now();
    call(time);
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

/** Returns how many times longer a call takes on the long log than on the short one. */
function growth(prepare: (log: ReturnType<typeof logOf>) => (time: number) => void): number {
  const [long, short] = [LONG, SHORT].map((entries) => shortest(300, prepare(logOf(entries))));
  // A clock that is too coarse for the short one must not make the ratio infinite.
  return long / Math.max(short, 0.0005);
}

describe('on a log of 100,000 entries', () => {
  it.each([
    ['the newest', -1],
    ['the oldest', 0],
  ])('a refund of %s of 100,000 entries takes less than 15 times as long as of 1,000', (_, end) => {
    const ratio = growth(({ limiter, receipts }) => (time) => {
      limiter.refundSync(receipts.at(end < 0 ? end - time : time)!);
    });
    expect(ratio).toBeLessThan(15);
  });

  it.each([
    ['a refund in the middle', -1],
    ['a settlement in the middle', 1],
  ])('%s of 100,000 entries takes less than 1/40 of the checks that added them', (_, delta) => {
    const start = performance.now();
    const { limiter, receipts } = logOf(LONG);
    const madeMs = performance.now() - start;
    const tookMs = shortest(50, (time) => {
      limiter.settleSync(receipts[LONG / 2 + time], 1 + delta);
    });
    expect(tookMs).toBeLessThan(madeMs / 40);
  });

  it.each([
    ['a denial of cost 1', 1],
    ['a denial of half the limit', 0.5],
    ['a peek', 0],
  ])(
    '%s on a half-expired log of 100,000 entries takes < 15 times as long as on 1,000',
    (_, cost) => {
      const ratio = growth(({ clock, limiter, receipts }) => {
        const limit = receipts.length;
        clock.advance(WINDOW_MS - limit / 2);
        return () => {
          if (cost === 0) limiter.peekSync('p', 'a');
          else limiter.checkSync('p', 'a', { cost: cost === 1 ? limit : limit / 2 + 10 });
        };
      });
      expect(ratio).toBeLessThan(15);
    },
  );

  it('a check is correct after all entries expired and after a clock step back', () => {
    const { clock, limiter, check } = logOf(LONG);
    clock.advance(2 * WINDOW_MS);
    check();
    clock.set(START_MS + 2 * WINDOW_MS);
    check();
    expect(limiter.inspectSync('p', 'a')).toMatchObject({ entryCount: 1, used: 2 });
  });

  it('dropping 100,000 entries takes less than 1/100 of adding them', () => {
    const slab = new EntrySlab(false);
    const states = Array.from({ length: 5 }, () => stateOf(slab));
    const addedMs = shortest(5, (at) => fill(slab, states[at], LONG));
    const droppedMs = shortest(5, (at) => slab.drop(states[at], START_MS + LONG, 1));
    expect(slab.ageOfNewest(states[0], START_MS + LONG)).toBe(-1);
    expect(droppedMs).toBeLessThan(addedMs / 100);
  });

  it('inspect returns the newest 1,000 valid entries, and the number of all', () => {
    const { clock, limiter } = logOf(LONG);
    const state = limiter.inspectSync('p', 'a');
    expect(state?.entryCount).toBe(LONG);
    expect(state?.entries).toHaveLength(1000);
    expect(state?.entries[0]).toEqual({ atMs: START_MS + LONG - 999, cost: 1 });
    expect(state?.entries.at(-1)).toEqual({ atMs: START_MS + LONG, cost: 1 });
    clock.advance(WINDOW_MS - 10);
    expect(limiter.inspectSync('p', 'a')).toMatchObject({ entryCount: 10, used: 10 });
    expect(limiter.inspectSync('p', 'a')?.entries).toHaveLength(10);
  });

  it('inspect of 100,000 entries takes less than 10 times as long as of 1,000', () => {
    const ratio = growth(
      ({ limiter }) =>
        () =>
          limiter.inspectSync('p', 'a'),
    );
    expect(ratio).toBeLessThan(10);
  });
});

it('repeated charges and refunds of a log do not increase the memory', () => {
  const { clock, limiter } = logOf(3);
  clock.advance(2 * WINDOW_MS);
  limiter.checkSync('p', 'a');
  const before = bytes();
  for (let n = 0; n < 20_000; n++) {
    clock.advance(1);
    const { receipt } = limiter.checkSync('p', 'a');
    clock.advance(1);
    if (n % 5000 === 0) limiter.resetSync('p', 'a');
    limiter.checkSync('p', 'a');
    if (receipt) limiter.refundSync(receipt);
    expect(limiter.inspectSync('p', 'a')?.entryCount).toBeLessThan(4);
  }
  expect(bytes() - before).toBeLessThan(10_000);
});

function bytes(): number {
  // Another thread frees the collected buffers with a delay.
  for (let last = Number.NaN; ; ) {
    collect();
    const { arrayBuffers } = process.memoryUsage();
    if (arrayBuffers === last) return last;
    last = arrayBuffers;
  }
}

/** Appends entries a millisecond apart. */
function fill(slab: EntrySlab, state: ReturnType<typeof stateOf>, entries: number): void {
  for (let n = 0; n < entries; n++) slab.append(state, START_MS + n - 1, START_MS + n, 1);
}

describe.each([
  ['narrow', false, 1],
  ['wide', true, 2],
])('the memory of a %s slab', (kind, wide, width) => {
  it.each([
    ['100,000 logs of 3', 100_000, 3, 11],
    ['50,000 logs of 7', 50_000, 7, 9.5],
    ['5,000 logs of 100', 5000, 100, 9.5],
    ['1,000 logs of 450', 1000, 450, 9.9],
    ['1 log of 100,000', 1, 100_000, 9.9],
  ])(
    `in a ${kind} slab, %s take at most 11 bytes per entry, or 22 if wide`,
    (_name, logs, entries, most) => {
      const before = bytes();
      const slab = new EntrySlab(wide);
      const states = Array.from({ length: logs }, () => stateOf(slab));
      const own = bytes() - before;
      for (const state of states) fill(slab, state, entries);
      const each = (bytes() - before - own) / (logs * entries);
      expect(each).toBeLessThan(width * most);
      expect(states.length).toBe(logs);
    },
  );

  it(`a ${kind} slab releases memory after a burst, when most logs are cleared`, () => {
    const slab = new EntrySlab(wide);
    const states = Array.from({ length: 30_000 }, () => stateOf(slab));
    const before = bytes();
    for (const [at, state] of states.entries()) fill(slab, state, at % 40);
    const during = bytes() - before;
    for (const [at, state] of states.entries()) if (at >= 100) slab.clear(state);
    // The other logs have ordinary traffic.
    for (let n = 0; n < 100; n++) {
      for (const state of states.slice(0, 100)) {
        const knownMs = START_MS + 1000 + n;
        slab.drop(state, knownMs - 1, 10);
        slab.append(state, knownMs - 1, knownMs, 1);
      }
    }
    expect(during).toBeGreaterThan(4_000_000 * width);
    expect(bytes() - before).toBeLessThan(600_000 * width);
  });

  it(`a ${kind} slab releases memory when a log of 100,000 entries has expired`, () => {
    const slab = new EntrySlab(wide);
    const state = stateOf(slab);
    const before = bytes();
    fill(slab, state, LONG);
    expect(bytes() - before).toBeGreaterThan(700_000 * width);
    slab.drop(state, START_MS + LONG - 1, 2);
    slab.append(state, START_MS + LONG - 1, START_MS + LONG, 1);
    // A chunk of 32 KB may wait to be used again.
    expect(bytes() - before).toBeLessThan(37_000 * width);
  });

  it(`a ${kind} slab with one entry takes less than 1 KB, or 2 KB if wide`, () => {
    const before = bytes();
    const slabs = Array.from({ length: 1000 }, () => {
      const slab = new EntrySlab(wide);
      const state = stateOf(slab);
      slab.append(state, START_MS - 1, START_MS, 1);
      return slab;
    });
    expect((bytes() - before) / slabs.length).toBeLessThan(1000 * width);
  });
});
