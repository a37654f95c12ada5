import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { State } from '../../src/algorithms/algorithm.ts';
import { EntrySlab } from '../../src/stores/memory/slab.ts';

const START_MS = 1_745_000_100_000;

function stateIn(entries: EntrySlab): State {
  const cells = new Float64Array(3);
  return { cells, words: new Int32Array(cells.buffer), at: 0, entries };
}

type Entry = { timeMs: number; cost: number };

describe.each([
  ['narrow', false, 2 ** 31 - 1],
  ['wide', true, 400 * 86_400_000],
])('the %s slab', (_, wide, longestMs) => {
  it('keeps the lists of several keys as arrays would', () => {
    const command = fc.record({
      key: fc.integer({ min: 0, max: 2 }),
      op: fc.constantFrom('append', 'append', 'append', 'drop', 'adjust', 'trim', 'clear'),
      afterMs: fc.oneof(
        fc.constantFrom(0, 1),
        fc.integer({ min: 0, max: Math.floor(longestMs / 130) }),
      ),
      amount: fc.integer({ min: 1, max: 50 }),
    });
    fc.assert(
      fc.property(fc.array(command, { maxLength: 120 }), (commands) => {
        const slab = new EntrySlab(wide);
        const states = [stateIn(slab), stateIn(slab), stateIn(slab)];
        const lists: Entry[][] = [[], [], []];
        for (const { key, op, afterMs, amount } of commands) {
          const state = states[key];
          let list = lists[key];
          const newestMs = list.at(-1)?.timeMs ?? START_MS;
          if (op === 'append') {
            slab.append(state, newestMs, newestMs + afterMs, amount);
            const last = list.at(-1);
            if (last && afterMs === 0) last.cost += amount;
            else list.push({ timeMs: newestMs + afterMs, cost: amount });
          } else if (op === 'drop') {
            slab.drop(state, newestMs, afterMs);
            list = list.filter((entry) => newestMs - entry.timeMs < afterMs);
          } else if (op === 'adjust') {
            const entry = list[amount % Math.max(list.length, 1)];
            const timeMs = entry?.timeMs ?? newestMs - 1;
            const change = slab.adjust(state, newestMs, timeMs, -amount);
            expect(change).toBe(entry ? 0 - Math.min(amount, entry.cost) : 0);
            if (entry) entry.cost += change;
          } else if (op === 'trim') {
            const ageMs = slab.trim(state, newestMs);
            while (list.at(-1)?.cost === 0) list.pop();
            const newest = list.at(-1);
            expect(ageMs).toBe(newest ? newestMs - newest.timeMs : -1);
          } else {
            slab.clear(state);
            list = [];
          }
          lists[key] = list;
          verify(slab, states[key], list);
        }
        for (const [key, list] of lists.entries()) verify(slab, states[key], list);
      }),
      { numRuns: 300 },
    );
  });

  it('uses freed blocks again', () => {
    const slab = new EntrySlab(wide);
    const chunks = (): number => (slab as never as { chunks: unknown[] }).chunks.length;
    const state = stateIn(slab);
    for (let round = 0; round < 20; round++) {
      for (let n = 0; n < 10_000; n++) slab.append(state, START_MS + n - 1, START_MS + n, 1);
      expect(chunks()).toBe(1);
      if (round % 2 === 0) slab.clear(state);
      else slab.drop(state, START_MS + 9999, 0);
    }
  });
});

function verify(slab: EntrySlab, state: State, list: readonly Entry[]): void {
  const newestMs = list.at(-1)?.timeMs ?? START_MS;
  const seen: Entry[] = [];
  slab.visit(state, newestMs, (timeMs, cost) => seen.push({ timeMs, cost }));
  expect(seen).toEqual(list);
  const middle = list[list.length >>> 1];
  if (middle === undefined) return;
  const ageMs = newestMs - middle.timeMs;
  const older = list.filter((entry) => newestMs - entry.timeMs >= ageMs);
  const sum = older.reduce((total, entry) => total + entry.cost, 0);
  expect(slab.costOfAge(state, newestMs, ageMs)).toBe(sum);
  if (middle.cost > 0) expect(slab.ageAtCost(state, newestMs, sum)).toBe(ageMs);
}
