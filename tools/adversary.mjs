/**
 * Tests the memory store with random attackers:
 *
 *     npm run adversary -- [--ops N] [--seed S] [--keys K]
 *
 * Each round creates a store with `maxKeys` from 1,000 to 100,000 and 2 to 20 policies. Attackers
 * flood some of the policies with keys that are used once, keys at their limit, checks of several
 * limits, ids, refunds and receipts. Honest clients use the other policies, with at most as many
 * keys as the store guarantees to each policy. Every decision about an honest client is compared
 * with the decision of a store that never evicts. After the rounds, the memory of a flooded store
 * of K keys is compared with the documented budget. `--keys 0` skips this comparison.
 *
 * Prints a line for each round and a summary. The exit code is 1 if a decision differs or the
 * memory exceeds the budget by more than 10 %. The same seed repeats a run.
 */
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const library = new URL('../packages/sluice/dist/index.js', import.meta.url).href;
const { createLimiter, definePolicy, ManualClock, memoryStore } = await import(library);

const START_MS = 1_745_000_100_000;
const ALGORITHMS = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];
const LONG_ID = 'x'.repeat(1000);
const MAX_ROUND_OPS = 400_000;

/** Returns a seeded random number generator. */
function randomOf(seed) {
  let state = seed >>> 0 || 1;
  const next = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
  return {
    /** Returns an integer from `least` to `most`. */
    integer: (least, most) => least + (next() % (most - least + 1)),
    pick: (list) => list[next() % list.length],
    chance: (part) => next() < part * 2 ** 32,
  };
}

function policiesOf(random) {
  const count = random.integer(2, 20);
  const policies = {};
  for (let place = 0; place < count; place++) {
    policies[`p${place}`] = {
      limit: random.pick([1, 2, 5, 100, 10_000]),
      window: random.pick([1000, 60_000, 3_600_000, 86_400_000]),
      algorithm: random.pick(ALGORITHMS),
    };
  }
  return policies;
}

/** Creates a store and a limiter with a manual clock. */
function openWorld(policies, maxKeys) {
  const clock = new ManualClock(START_MS);
  const store = memoryStore({ maxKeys });
  return { clock, store, limiter: createLimiter({ policies, store, clock }) };
}

function attackerOf(random, policies, names, { limiter, store, clock }) {
  const defined = Object.fromEntries(
    names.map((name) => [name, definePolicy(name, policies[name])]),
  );
  const receipts = [];
  let keys = 0;
  const newKey = () => `attack-${keys++}`;
  const oldKey = () => `attack-${random.integer(Math.max(0, keys - 1000), keys)}`;
  const keep = (decision) => {
    if (decision.allowed) receipts[random.integer(0, 99)] = decision.receipt;
  };
  const some = (most) => [...new Set(Array.from({ length: most }, () => random.pick(names)))];
  const charge = (name, key, cost, id) => keep(limiter.checkSync(name, key, { cost, id }));
  const attacks = [
    () => charge(random.pick(names), newKey(), 1),
    () => {
      const name = random.pick(names);
      charge(name, newKey(), policies[name].limit);
    },
    () => charge(random.pick(names), oldKey(), 1),
    () => charge(random.pick(names), newKey(), 1, `${LONG_ID}${keys}`),
    () => {
      const limits = some(4).map((policy) => ({ policy, key: newKey() }));
      keep(limiter.checkSync(limits, random.chance(0.3) ? { id: `${LONG_ID}${keys}` } : undefined));
    },
    () => {
      const receipt = random.pick(receipts.length > 0 ? receipts : [undefined]);
      if (receipt !== undefined) limiter.refundSync(receipt);
    },
    () => {
      const receipt = random.pick(receipts.length > 0 ? receipts : [undefined]);
      if (receipt === undefined) return;
      const adjustments = receipt.charges.map((each) => {
        const policy = defined[each.policy];
        return { policy, params: policy.paramsFor(each.key), charge: each, delta: -each.cost };
      });
      store.adjustOnceSync(`receipt-${keys++}`, adjustments, clock.now());
    },
    () => limiter.resetSync(random.pick(names), oldKey()),
    () => limiter.inspectSync(random.pick(names), oldKey()),
  ];
  const style = random.pick([
    attacks,
    attacks.slice(0, 1),
    attacks.slice(1, 2),
    attacks.slice(0, 5),
  ]);
  return () => random.pick(style)();
}

/**
 * Returns a function that runs a random operation on both stores. It returns both results if they
 * differ, otherwise undefined.
 */
function honestClients(random, names, keysPerPolicy, policies, worlds) {
  const receipts = [];
  let ids = 0;
  const keyOf = () => `honest-${random.integer(0, keysPerPolicy - 1)}`;
  const all = (act) => worlds.map((world, place) => act(world.limiter, place));
  const charged = (decisions) => {
    receipts[random.integer(0, 49)] = decisions.map(({ receipt }) => receipt);
    return decisions;
  };
  const acts = [
    () => {
      const [name, key] = [random.pick(names), keyOf()];
      const cost = random.chance(0.9) ? 1 : random.integer(1, policies[name].limit);
      const id = random.chance(0.05) ? `id-${random.chance(0.5) ? ids : ids++}` : undefined;
      return charged(all((limiter) => limiter.checkSync(name, key, { cost, id })));
    },
    () => {
      const [name, key] = [random.pick(names), keyOf()];
      return all((limiter) => limiter.peekSync(name, key, { cost: 1 }));
    },
    () => {
      const list = [...new Set([random.pick(names), random.pick(names)])];
      const limits = list.map((policy) => ({ policy, key: keyOf() }));
      return charged(all((limiter) => limiter.checkSync(limits)));
    },
    () => {
      const pair = random.pick(receipts.length > 0 ? receipts : [undefined]);
      if (pair?.[0] === undefined) return [];
      return all((limiter, place) => (pair[place] ? limiter.refundSync(pair[place]) : undefined));
    },
  ];
  return () => {
    const weighted = random.chance(0.7) ? acts[0] : random.pick(acts);
    const [bounded, unbounded] = weighted().map((each) => JSON.stringify(each));
    return bounded === unbounded ? undefined : { bounded, unbounded };
  };
}

/** Runs one round. Returns its counts and the decisions that differ. */
function round(seed, most) {
  const random = randomOf(seed);
  const policies = policiesOf(random);
  const names = Object.keys(policies);
  const maxKeys = random.integer(1000, 100_000);
  const flooded = names.slice(0, random.integer(1, names.length - 1));
  const quiet = names.slice(flooded.length);
  const worlds = [openWorld(policies, maxKeys), openWorld(policies, 2 ** 29)];
  const share = Math.floor(maxKeys / names.length);
  const attack = attackerOf(random, policies, flooded, worlds[0]);
  const use = honestClients(random, quiet, random.integer(1, share), policies, worlds);
  const differences = [];
  let decisions = 0;
  let ops = 0;
  const target = Math.min(most, MAX_ROUND_OPS);
  while (ops < target) {
    const flood = random.integer(1, random.pick([1, 10, 3 * maxKeys]));
    for (let each = 0; each < flood && ops < target; each++, ops++) attack();
    for (let each = 0; each < 2000; each++, ops++, decisions++) {
      const difference = use();
      if (difference !== undefined) differences.push(difference);
    }
    const stepMs = random.pick([0, 1, 10, 1000, 20_000]);
    for (const { clock } of worlds) clock.advance(stepMs);
  }
  const { size, evicted } = worlds[0].store;
  const isOver = size > maxKeys + 64;
  return {
    maxKeys,
    policies: names.length,
    flooded: flooded.length,
    ops,
    decisions,
    evicted,
    isOver,
    differences,
  };
}

/** Floods a store in a child process. Returns its memory and the budget in bytes. */
function memoryOf(algorithm, maxKeys) {
  const script = `
    import { createLimiter, memoryStore } from ${JSON.stringify(library)};
    const policies = { p: { limit: 5, window: '1d', algorithm: '${algorithm}' }, q: '5/1h' };
    // Warm up with the same number of calls on few keys, so that V8 has already grown its young
    // generation when the measurement starts.
    const warm = createLimiter({ policies, store: memoryStore({ maxKeys: 1000 }) });
    for (let key = 0; key < ${3 * maxKeys}; key++) warm.checkSync('p', 'warm-' + key, { cost: 5 });
    const read = () => {
      for (let time = 0; time < 4; time++) gc();
      const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
      return { rss, held: heapUsed + arrayBuffers };
    };
    const store = memoryStore({ maxKeys: ${maxKeys} });
    const limiter = createLimiter({ policies, store });
    const before = read();
    for (let key = 0; key < ${3 * maxKeys}; key++) {
      limiter.checkSync('p', 'key-' + key, { cost: 5 });
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    const after = read();
    console.log(JSON.stringify({ rss: after.rss - before.rss, held: after.held - before.held,
      size: store.size }));`;
  const text = execFileSync(
    process.execPath,
    ['--expose-gc', '--input-type=module', '-e', script],
    { encoding: 'utf8' },
  );
  const keepsEntries = algorithm === 'sliding-log' || algorithm === 'sliding-buckets';
  // The budget of docs/library.md: 43 bytes per key, 8 bytes for evicted keys, and for algorithms
  // with entries a block of 32 bytes, which has room for 3 entries.
  const budget = maxKeys * (43 + 8 + (keepsEntries ? 32 : 0));
  return { algorithm, maxKeys, budget, ...JSON.parse(text) };
}

const inMb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

const { values } = parseArgs({
  options: {
    ops: { type: 'string', default: '10000000' },
    seed: { type: 'string', default: String((process.hrtime()[1] % 1e9) + 1) },
    keys: { type: 'string', default: '1000000' },
  },
});
const wanted = Number(values.ops);
let failed = false;
let ops = 0;
let decisions = 0;
for (let seed = Number(values.seed); ops < wanted; seed++) {
  const result = round(seed, wanted - ops);
  ops += result.ops;
  decisions += result.decisions;
  const { differences, isOver, ...figures } = result;
  const isWrong = differences.length > 0 || isOver;
  failed ||= isWrong;
  console.log(
    `seed ${seed}: ${figures.maxKeys} keys, ${figures.flooded} of ${figures.policies} policies`,
    `flooded, ${figures.ops} operations, ${figures.evicted} evicted,`,
    `${differences.length} differences`,
  );
  for (const each of differences.slice(0, 3)) console.log(each);
}
console.log(`${ops} operations, ${decisions} honest decisions compared`);
for (const algorithm of Number(values.keys) > 0 ? ['sliding-counter', 'sliding-log'] : []) {
  const { rss, held, budget, size } = memoryOf(algorithm, Number(values.keys));
  const ratio = Math.max(held, rss) / budget;
  if (ratio > 1.1) failed = true;
  console.log(
    `${algorithm}: ${size} keys, ${inMb(held)} held, ${inMb(rss)} RSS,`,
    `budget ${inMb(budget)}, ratio ${ratio.toFixed(3)}`,
  );
}
process.exitCode = failed ? 1 : 0;
