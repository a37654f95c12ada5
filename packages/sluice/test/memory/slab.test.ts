import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { State } from '../../src/algorithms/algorithm.ts';
import { EntrySlab } from '../../src/stores/memory/slab.ts';
import { stateOf } from './table-model.ts';

const START_MS = 1_745_000_100_000;

type Entry = { timeMs: number; cost: number };

describe.each([
  ['narrow', false, 2 ** 31 - 1],
  ['wide', true, 400 * 86_400_000],
])('the %s slab', (_, wide, longestMs) => {
  it('keeps the lists of several keys as arrays would', () => {
    const command = fc.record({
      key: fc.integer({ min: 0, max: 2 }),
      op: fc.constantFrom('append', 'append', 'append', 'adjust', 'adjust', 'drop', 'clear'),
      afterMs: fc.oneof(
        fc.constantFrom(0, 1),
        fc.integer({ min: 0, max: Math.floor(longestMs / 130) }),
      ),
      amount: fc.integer({ min: 1, max: 50 }),
    });
    fc.assert(
      fc.property(fc.array(command, { maxLength: 120 }), (commands) => {
        const slab = new EntrySlab(wide);
        const states = [stateOf(slab), stateOf(slab), stateOf(slab)];
        const lists: Entry[][] = [[], [], []];
        const known = [START_MS, START_MS, START_MS];
        for (const { key, op, afterMs, amount } of commands) {
          const state = states[key];
          const knownMs = known[key];
          let list = lists[key];
          if (op === 'append') {
            slab.append(state, knownMs, knownMs + afterMs, amount);
            const last = list.at(-1);
            if (last?.timeMs === knownMs + afterMs) last.cost += amount;
            else list.push({ timeMs: knownMs + afterMs, cost: amount });
            known[key] += afterMs;
          } else if (op === 'drop') {
            const old = list.filter((entry) => knownMs - entry.timeMs >= afterMs);
            expect(slab.drop(state, knownMs, afterMs)).toBe(costOf(old));
            list = list.filter((entry) => knownMs - entry.timeMs < afterMs);
          } else if (op === 'adjust') {
            const entry = list[amount % Math.max(list.length, 1)];
            const timeMs = entry?.timeMs ?? knownMs - 1;
            const change = slab.adjust(state, knownMs, timeMs, -amount);
            expect(change).toBe(entry ? 0 - Math.min(amount, entry.cost) : 0);
            if (entry) entry.cost += change;
            list = list.filter(({ cost }) => cost > 0);
          } else {
            slab.clear(state);
            list = [];
          }
          lists[key] = list;
          verify(slab, states[key], list, known[key]);
        }
        for (const [key, list] of lists.entries()) verify(slab, states[key], list, known[key]);
      }),
      { numRuns: 400 },
    );
  });

  it('uses freed blocks again', () => {
    const slab = new EntrySlab(wide);
    const state = stateOf(slab);
    for (let round = 0; round < 20; round++) {
      for (let n = 0; n < 10_000; n++) slab.append(state, START_MS + n - 1, START_MS + n, 1);
      // The pointer to the newest entry: 10,000 entries need 2,500 blocks of four places.
      expect(state.words[5]).toBeLessThan(4 * 2600);
      if (round % 2 === 0) slab.clear(state);
      else slab.drop(state, START_MS + 9999, 0);
    }
  });
});

const costOf = (list: readonly Entry[]): number => list.reduce((sum, { cost }) => sum + cost, 0);

function verify(slab: EntrySlab, state: State, list: readonly Entry[], knownMs: number): void {
  const seen: Entry[] = [];
  slab.visit(state, knownMs, (timeMs, cost) => seen.push({ timeMs, cost }));
  expect(seen).toEqual(list);
  const newest = list.at(-1);
  expect(slab.ageOfNewest(state, knownMs)).toBe(newest ? knownMs - newest.timeMs : -1);
  const middle = list[list.length >>> 1];
  if (middle === undefined) return;
  const ageMs = knownMs - middle.timeMs;
  const older = list.filter((entry) => knownMs - entry.timeMs >= ageMs);
  expect(slab.costOfAge(state, knownMs, ageMs)).toBe(costOf(older));
  expect(slab.ageAtCost(state, knownMs, costOf(older))).toBe(ageMs);
}
