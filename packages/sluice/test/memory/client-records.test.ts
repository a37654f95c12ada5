/** Ids and used receipts of several clients share the memory of a store fairly. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExpiringRecords } from '../../src/idempotency/expiring-records.ts';
import { definePolicy, memoryStore } from '../../src/index.ts';

const START_MS = 1_745_000_100_000;
const LIFETIME_MS = 1000;
/** More than a group takes without records. */
const GROUP_BYTES = 400;

interface Added {
  readonly group: string;
  readonly name: number;
  readonly bytes: number;
  readonly atMs: number;
}

const sum = (records: readonly Added[]): number =>
  records.reduce((total, { bytes }) => total + bytes, 0);

describe('ExpiringRecords', () => {
  const step = fc.record({
    group: fc.oneof(fc.constant(0), fc.nat(5)),
    bytes: fc.integer({ min: 1, max: 1500 }),
    afterMs: fc.oneof(fc.constant(0), fc.nat(200)),
  });
  const trace = fc.array(step, { minLength: 1, maxLength: 150 });

  /** Replays a trace, and calls `look` after each step. */
  function replay(
    steps: readonly { group: number; bytes: number; afterMs: number }[],
    maxBytes: number,
    look: (records: ExpiringRecords<number>, added: readonly Added[], nowMs: number) => void,
  ): void {
    const records = new ExpiringRecords<number>(maxBytes);
    const added: Added[] = [];
    let nowMs = START_MS;
    for (const [name, { group, bytes, afterMs }] of steps.entries()) {
      nowMs += afterMs;
      records.set(`g${group}`, name, name, bytes, LIFETIME_MS, nowMs);
      added.push({ group: `g${group}`, name, bytes, atMs: nowMs });
      look(records, added, nowMs);
    }
  }

  const groupsOf = (added: readonly Added[]): readonly string[] => [
    ...new Set(added.map(({ group }) => group)),
  ];

  it('ExpiringRecords never exceed maxBytes', () => {
    fc.assert(
      fc.property(trace, fc.integer({ min: 0, max: 20_000 }), (steps, maxBytes) => {
        replay(steps, maxBytes, (records, added) => {
          const kept = added.filter(({ name }) => records.get(name) === name);
          expect(sum(kept)).toBeLessThanOrEqual(maxBytes);
        });
      }),
    );
  });

  it('a group within its share of the bytes loses no record before the record expires', () => {
    fc.assert(
      fc.property(trace, fc.integer({ min: 3000, max: 20_000 }), (steps, maxBytes) => {
        /** Groups that were above their share at some time. */
        const above = new Set<string>();
        replay(steps, maxBytes, (records, added, nowMs) => {
          const groups = groupsOf(added);
          for (const group of groups) {
            const own = added.filter((each) => each.group === group);
            // Expired records may not have been deleted yet, so all of them count.
            if (sum(own) + GROUP_BYTES > maxBytes / groups.length) above.add(group);
            if (above.has(group)) continue;
            for (const { name, atMs } of own) {
              if (nowMs - atMs < LIFETIME_MS) expect(records.get(name)).toBe(name);
            }
          }
        });
      }),
    );
  });

  it('only the oldest records of a group, all from before evictedMs, are evicted', () => {
    fc.assert(
      fc.property(trace, fc.integer({ min: 0, max: 20_000 }), (steps, maxBytes) => {
        replay(steps, maxBytes, (records, added, nowMs) => {
          for (const group of groupsOf(added)) {
            const own = added.filter((each) => each.group === group);
            const kept = own.map(({ name }) => records.get(name) !== undefined);
            expect(kept.slice(kept.indexOf(true)).every(Boolean) || !kept.includes(true)).toBe(
              true,
            );
            for (const [at, { atMs }] of own.entries()) {
              const isEvicted = !kept[at] && nowMs - atMs < LIFETIME_MS;
              if (isEvicted) expect(records.evictedMs(group)).toBeGreaterThan(atMs);
            }
          }
        });
      }),
    );
  });

  it('a single group of records can use all bytes', () => {
    const records = new ExpiringRecords<number>(100_000);
    for (let name = 0; name < 5000; name++) records.set('a', name, name, 100, 1000, START_MS);
    const kept = Array.from({ length: 5000 }, (_, name) => records.get(name)).filter(
      (value) => value !== undefined,
    );
    expect(kept.length).toBeGreaterThan(990);
  });

  it('groups of records that have expired are deleted', () => {
    const records = new ExpiringRecords<number>(2 ** 30);
    for (let name = 0; name < 1000; name++) records.set(`g${name}`, name, name, 100, 10, START_MS);
    for (let name = 0; name < 2000; name++)
      records.set('a', 1000 + name, name, 100, 10, START_MS + 10);
    const kept = Array.from({ length: 1000 }, (_, name) => records.get(name));
    expect(kept.every((value) => value === undefined)).toBe(true);
  });
});

describe('memoryStore', () => {
  const policy = definePolicy('p', { limit: 1_000_000, window: '1h' });
  const params = policy.params!;

  it('the ids of one client do not evict the ids of another client', () => {
    const store = memoryStore({ maxIdBytes: 100_000 });
    const decide = (id: string, client: string) => {
      const limits = [{ policy, params, key: client, cost: 1 }];
      return store.decideSync({ limits, peek: false, id, client }, START_MS);
    };
    const first = decide('mine', 'victim');
    for (let call = 0; call < 5000; call++) decide(`id-${call}`, 'flooder');
    expect(decide('mine', 'victim')).toBe(first);
  });

  it('an id is found by any client, and the result has the client of the first call', () => {
    const store = memoryStore();
    const decide = (client: string) => {
      const limits = [{ policy, params, key: 'k', cost: 1 }];
      return store.decideSync({ limits, peek: false, id: 'one', client }, START_MS);
    };
    const first = decide('a');
    expect(decide('b')).toBe(first);
    expect(first.client).toBe('a');
  });

  it('the receipts of one client do not make the receipts of another client unusable', () => {
    const store = memoryStore({ maxIdBytes: 20_000 });
    const use = (id: string, client: string, atMs: number) => {
      const charge = { policy: 'p', key: client, cost: 1, atMs };
      const adjustments = [{ policy, params, charge, delta: -1 }];
      return store.adjustOnceSync(id, adjustments, atMs + 1000, client);
    };
    for (let id = 0; id < 1000; id++) use(`r-${id}`, 'flooder', START_MS + id);
    expect(use('mine', 'victim', START_MS)).toBeDefined();
    for (let id = 1000; id < 2000; id++) use(`r-${id}`, 'flooder', START_MS + id);
    expect(use('mine', 'victim', START_MS)).toBeUndefined();
    expect(use('r-0', 'flooder', START_MS)).toBeUndefined();
  });

  it('ids and receipts of 100,000 clients stay within maxIdBytes', { timeout: 120_000 }, () => {
    const source = new URL('../../dist/index.js', import.meta.url).href;
    const script = `
      import { definePolicy, memoryStore } from ${JSON.stringify(source)};
      const policy = definePolicy('p', { limit: 1000000, window: '1h' });
      const { params } = policy;
      const maxIdBytes = 2 ** 23;
      const store = memoryStore({ maxKeys: 10, maxIdBytes });
      const heapBytes = () => {
        gc();
        return process.memoryUsage().heapUsed;
      };
      const startMs = ${START_MS};
      const add = (call) => {
        const client = 'client' + call;
        const key = 'k';
        const limits = [{ policy, params, key, cost: 1 }];
        store.decideSync({ limits, peek: false, id: 'id' + call, client }, startMs + call);
        const charge = { policy: 'p', key, cost: 1, atMs: startMs + call };
        const adjustments = [{ policy, params, charge, delta: -1 }];
        store.adjustOnceSync('r' + call, adjustments, startMs + call, client);
      };
      add(0);
      const before = heapBytes();
      for (let call = 1; call < 100000; call++) add(call);
      console.log((heapBytes() - before) / (2 * maxIdBytes));
      add(100000);`;
    const node: [string, string[]] = [
      process.execPath,
      ['--expose-gc', '--input-type=module', '-e', script],
    ];
    const fraction = Number(execFileSync(...node, { encoding: 'utf8' }));
    expect(fraction).toBeLessThan(1.15);
  });
});
