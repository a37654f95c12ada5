import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { byTime, Heap, type TimedEntry } from '../src/heap.ts';

describe('Heap', () => {
  it('Heap returns entries by time, then by order of addition, also after removals', () => {
    const operation = fc.record({ dueMs: fc.nat(9), remove: fc.option(fc.nat(20)) });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const heap = new Heap<TimedEntry>(byTime);
        let kept: TimedEntry[] = [];
        for (const { dueMs, remove } of operations) {
          const entry = { dueMs };
          heap.add(entry);
          kept = [...kept, entry].sort((one, other) => one.dueMs - other.dueMs);
          const removed = remove === null ? undefined : kept[remove];
          if (removed) heap.delete(removed);
          kept = kept.filter((each) => each !== removed);
          expect(heap.first).toBe(kept[0]);
        }
        for (const entry of kept) {
          expect(heap.first).toBe(entry);
          heap.delete(entry);
        }
        expect(heap.first).toBeUndefined();
      }),
    );
  });

  it('Heap ignores the removal of an entry that it does not contain', () => {
    const heap = new Heap<TimedEntry>(byTime);
    const [one, other] = [{ dueMs: 1 }, { dueMs: 2 }];
    heap.delete(one);
    heap.add(one);
    heap.delete(other);
    heap.delete(one);
    heap.delete(one);
    expect(heap.first).toBeUndefined();
    heap.add(other);
    heap.delete(one);
    expect(heap.first).toBe(other);
  });
});

it('adding, deleting and removing an entry takes O(log n) comparisons', () => {
  const COUNT = 30_000;
  let ranked = 0;
  const heap = new Heap<TimedEntry>((entry) => {
    ranked++;
    return entry.dueMs;
  });
  const entries = Array.from({ length: COUNT }, (_, at) => ({ dueMs: (at * 7919) % COUNT }));
  for (const entry of entries) heap.add(entry);
  for (const [at, entry] of entries.entries()) if (at % 2 === 0) heap.delete(entry);
  for (let first = heap.first; first; first = heap.first) heap.delete(first);
  // A comparison ranks two entries. Each level of the heap takes up to three comparisons.
  expect(ranked).toBeLessThan(2 * COUNT * 2 * 3 * Math.log2(COUNT));
});
