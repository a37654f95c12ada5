import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KeyQueue, LinkedList, type QueueNode, ShardedMap } from '../src/acquire/key-queue.ts';

describe('KeyQueue', () => {
  it('demandAt returns the cost of a waiter and all earlier ones, also after removals', () => {
    const operation = fc.record({
      cost: fc.integer({ min: 1, max: 5 }),
      leave: fc.option(fc.nat(60)),
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 150 }), (operations) => {
        const queue = new KeyQueue<number>();
        const places: QueueNode<number>[] = [];
        for (const [at, { cost, leave }] of operations.entries()) {
          places.push(queue.add(at, cost));
          const left = leave === null ? undefined : places[leave];
          if (left) {
            queue.remove(left);
            places.splice(places.indexOf(left), 1);
          }
          let demand = 0;
          for (const place of places) {
            demand += place.cost;
            expect(queue.demandAt(place)).toBe(demand);
          }
          expect([queue.first, queue.last]).toEqual([places[0], places.at(-1)]);
        }
      }),
    );
  });

  it('a waiter references few sums, regardless of the number of removed waiters', () => {
    const queue = new KeyQueue<number>();
    const patient = queue.add(0, 1);
    let last = queue.add(1, 1);
    for (let at = 2; at < 100_000; at++) {
      const next = queue.add(at, 1);
      queue.remove(last);
      last = next;
    }
    const reached = new Set<unknown>();
    const visit = (sum: QueueNode<number>['sum']): void => {
      if (sum === undefined || reached.has(sum)) return;
      reached.add(sum);
      visit(sum.left);
      visit(sum.up);
    };
    for (const place of [patient, last]) visit(place.sum);
    expect(reached.size).toBeLessThan(17 * 17);
    expect(queue.demandAt(last)).toBe(2);
    expect([patient.after, last.before]).toEqual([last, patient]);
  });
});

describe('LinkedList', () => {
  it('LinkedList calls `emptied` only when its last item is removed', () => {
    let times = 0;
    const list = new LinkedList<string>(() => times++);
    const places = ['a', 'b', 'c'].map((item) => list.add(item));
    list.remove(places[1]);
    list.remove(places[0]);
    expect([list.first?.item, list.last?.item, times]).toEqual(['c', 'c', 0]);
    list.remove(places[2]);
    expect([list.first, list.last, times]).toEqual([undefined, undefined, 1]);
  });
});

describe('ShardedMap', () => {
  it('ShardedMap finds, adds and deletes keys across its shards', () => {
    const map = new ShardedMap<string, number>();
    for (let at = 1; at <= 20_000; at++) map.add(`k${at}`, at);
    expect([map.get('k1'), map.get('k9000'), map.get('k20000')]).toEqual([1, 9000, 20_000]);
    map.delete('k1');
    map.delete('none');
    expect([map.get('k1'), map.get('none')]).toEqual([undefined, undefined]);
    map.add('k1', -1);
    expect(map.get('k1')).toBe(-1);
  });
});
