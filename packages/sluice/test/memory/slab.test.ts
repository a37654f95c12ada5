import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { State } from '../../src/algorithms/algorithm.ts';
import { EntrySlab } from '../../src/stores/memory/slab.ts';
import { stateOf } from './table-model.ts';

const START_MS = 1_745_000_100_000;
/** A time at which 32-bit words wrap. */
const WRAP_MS = 407 * 2 ** 32;

type Entry = { timeMs: number; cost: number };

const costOf = (list: readonly Entry[]): number => list.reduce((sum, { cost }) => sum + cost, 0);

/** The entries of one key, in a slab and in an array. */
class Model {
  readonly state: State;
  list: Entry[] = [];

  constructor(
    readonly slab: EntrySlab,
    public knownMs: number,
  ) {
    this.state = stateOf(slab);
  }

  append(afterMs: number, cost: number): void {
    const timeMs = this.knownMs + afterMs;
    this.slab.append(this.state, this.knownMs, timeMs, cost);
    const last = this.list.at(-1);
    if (last?.timeMs === timeMs) last.cost += cost;
    else this.list.push({ timeMs, cost });
    this.knownMs = timeMs;
  }

  drop(ageMs: number): void {
    this.slab.drop(this.state, this.knownMs, ageMs);
    this.list = this.list.filter(({ timeMs }) => this.knownMs - timeMs < ageMs);
  }

  adjust(at: number, delta: number): void {
    const entry = this.list[at];
    const timeMs = entry?.timeMs ?? this.knownMs + 1;
    const most = Number.MAX_SAFE_INTEGER - costOf(this.list);
    const expected = entry ? Math.min(Math.max(delta, -entry.cost), most) : 0;
    expect(this.slab.adjust(this.state, this.knownMs, timeMs, delta)).toBe(expected);
    if (entry) entry.cost += expected;
    this.list = this.list.filter(({ cost }) => cost > 0);
  }

  clear(): void {
    this.slab.clear(this.state);
    this.list = [];
  }

  visited(ageMs: number, most: number): { entries: Entry[]; count: number } {
    const entries: Entry[] = [];
    const count = this.slab.visit(this.state, this.knownMs, ageMs, most, (timeMs, cost) =>
      entries.push({ timeMs, cost }),
    );
    return { entries, count };
  }

  verify(at = this.list.length >>> 1): void {
    const { slab, state, knownMs, list } = this;
    const all = { entries: list, count: list.length };
    expect(this.visited(Number.POSITIVE_INFINITY, list.length)).toEqual(all);
    expect(state.cells[1]).toBe(costOf(list));
    const newest = list.at(-1);
    expect(slab.ageOfNewest(state, knownMs)).toBe(newest ? knownMs - newest.timeMs : -1);
    const entry = list[at];
    if (entry === undefined) return;
    const ageMs = knownMs - entry.timeMs;
    const older = costOf(list.slice(0, at));
    expect(slab.costOfAge(state, knownMs, ageMs + 1)).toBe(older);
    expect(slab.costOfAge(state, knownMs, ageMs)).toBe(older + entry.cost);
    expect(slab.ageAtCost(state, knownMs, older + 1)).toBe(ageMs);
    expect(slab.ageAtCost(state, knownMs, older + entry.cost)).toBe(ageMs);
    const younger = list.slice(at + 1);
    expect(this.visited(ageMs, 3)).toEqual({ entries: younger.slice(-3), count: younger.length });
  }
}

const command = (longestMs: number) =>
  fc.record({
    key: fc.integer({ min: 0, max: 2 }),
    op: fc.constantFrom('append', 'append', 'fill', 'adjust', 'adjust', 'drop', 'clear'),
    afterMs: fc.oneof(fc.constantFrom(0, 1), fc.integer({ min: 0, max: longestMs })),
    part: fc.double({ min: 0, max: 0.999, noNaN: true }),
    amount: fc.oneof(
      fc.integer({ min: 1, max: 50 }),
      fc.constantFrom(2 ** 31 - 1, 2 ** 32 - 1, 2 ** 32, 2 ** 52, Number.MAX_SAFE_INTEGER),
    ),
  });

describe.each([
  ['narrow', false, START_MS, 2 ** 31 / 600],
  ['wide', true, START_MS, 400 * 86_400_000],
  ['narrow, whose times wrap', false, WRAP_MS - 500, 50],
  ['narrow, at a time above 2^48', false, 2 ** 48 - 500, 50],
  ['narrow, up to the last exact time', false, 2 ** 53 - 200_000, 5],
  ['wide, up to the last exact time', true, 2 ** 53 - 200_000, 5],
])('the %s slab', (kind, wide, startMs, longestMs) => {
  it(`the slab returns the same entries of several keys as arrays (${kind})`, () => {
    const commands = fc.array(command(Math.floor(longestMs)), { maxLength: 60 });
    fc.assert(
      fc.property(commands, (list) => {
        const slab = new EntrySlab(wide);
        const keys = [0, 1, 2].map(() => new Model(slab, startMs));
        for (const { key, op, afterMs, part, amount } of list) {
          const model = keys[key];
          const at = Math.floor(part * model.list.length);
          // A narrow slab is used only for limits below 2^31.
          const room = (wide ? 2 ** 53 : 2 ** 31) - 1 - costOf(model.list);
          if (op === 'append' && room > 0) model.append(afterMs, Math.min(amount, room));
          else if (op === 'fill' && room > 500) {
            for (let n = 0; n < 10 + 150 * part; n++) model.append(1 + (n % 3), 1 + (n % 2));
          } else if (op === 'adjust') model.adjust(at, part < 0.7 ? -amount : amount);
          else if (op === 'drop') model.drop(model.knownMs - (model.list[at]?.timeMs ?? 0));
          else if (op === 'clear') model.clear();
          model.verify(at);
        }
        for (const model of keys) model.verify();
      }),
      { numRuns: Number(process.env.PROPERTY_RUNS ?? 50) },
    );
  });

  it(`the slab is exact for a log that grows, is refunded and shrinks (${kind})`, () => {
    const model = new Model(new EntrySlab(wide), startMs);
    for (let n = 0; n < 3000; n++) model.append(1 + (n % 2), 1 + (n % 7));
    model.verify();
    for (let n = 0; n < 2900; n++) {
      model.adjust((n * 7919) % model.list.length, -10);
      if (n % 100 === 0) model.verify((n * 31) % model.list.length);
      if (n % 300 === 0) model.append(1, 3);
    }
    model.verify();
    model.drop(Math.ceil((model.knownMs - model.list[0].timeMs) / 2));
    model.verify();
  });
});

it('the slab is exact when an entry is settled to a total of 2^32', () => {
  for (const last of [0, 4, 9]) {
    const model = new Model(new EntrySlab(false), START_MS);
    for (let n = 0; n < 10; n++) model.append(1 + n, 1 + n);
    // Changes the total before the first entry, which is kept modulo 2^32.
    model.adjust(2, 1000);
    model.verify();
    // To exactly 2^32 in total.
    model.adjust(last, 2 ** 32 - costOf(model.list));
    for (let at = 0; at < 10; at++) model.verify(at);
    model.append(1, 1);
    for (let at = 0; at < 11; at++) model.verify(at);
  }
});

it('a narrow slab is exact for debts beyond 2^32', () => {
  const model = new Model(new EntrySlab(false), START_MS);
  for (let n = 0; n < 10; n++) model.append(1, 1);
  for (const at of [0, 9, 5, 3]) {
    model.adjust(at, 2 ** 32 - 1);
    model.verify(at);
  }
  model.adjust(5, Number.MAX_SAFE_INTEGER);
  model.verify();
  model.append(1, 1);
  for (let n = 0; n < 10; n++) model.adjust(0, -Number.MAX_SAFE_INTEGER);
  model.verify();
});

it('the slab is exact for logs in blocks with numbers from 2^29 to 2^32', () => {
  const slab = new EntrySlab(false);
  const models: Model[] = [];
  // Blocks of the smallest kind lie in chunks of 2^10; the chunks before these have no memory.
  new Model(slab, START_MS).append(1, 1);
  for (const block of [2 ** 29, 2 ** 30, 2 ** 31, 2 ** 32 - 2 ** 10]) {
    slab.blocks[1].cursor = block / 2 ** 10;
    for (let n = 0; n < 4; n++) {
      const model = new Model(slab, START_MS);
      model.append(1, 1 + n);
      expect(model.state.words[4] >>> 0).toBe(block + n);
      models.push(model);
    }
  }
  for (const model of models) model.append(5, 7);
  for (const model of models) model.verify();
  models.forEach((model, at) => {
    if (at % 2 === 0) model.clear();
  });
  for (const model of models) model.verify();
});
