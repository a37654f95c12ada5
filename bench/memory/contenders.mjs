/**
 * What is compared in memory: Sluice, the memory stores of two peers, and a bare `Map` of counters,
 * which limits nothing and is the floor. Each is used as its users use it, with the real clock, and
 * gets a new key string for each call, as a server would make one.
 */
import { MemoryStore } from 'express-rate-limit';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { createLimiter, memoryStore } from 'sluice';

/** User ids of nine digits: 14 characters in all. */
const keyOf = (number) => `user:${100_000_000 + number}`;

/** A limit that is never reached, so that all do the same work: admit and count. */
const NEVER = 1_000_000_000;
const WINDOW_MS = 3_600_000;
const MAX_KEYS = 4_000_000;

/** The same sequence of pseudo-random key numbers for everybody. */
function sequence(keys) {
  let state = 0x2545f491;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % keys;
  };
}

const nanoseconds = (start, count) => Number(process.hrtime.bigint() - start) / count;

/**
 * Resident bytes that a task leaves behind, after collecting what it did not. The task runs first
 * on a thousandth of its keys, many times, so that the heap has the size that calls alone need.
 */
async function growth(task, warmUp = () => {}) {
  await warmUp();
  const settled = () => {
    for (let time = 0; time < 4; time++) gc();
    return process.memoryUsage().rss;
  };
  const before = settled();
  await task();
  return settled() - before;
}

/** The longest single call over `keys` new keys, in nanoseconds. */
function longest(keys, call) {
  let most = 0n;
  for (let number = 0; number < keys; number++) {
    const key = keyOf(number);
    const start = process.hrtime.bigint();
    call(key);
    const took = process.hrtime.bigint() - start;
    if (took > most) most = took;
  }
  return Number(most);
}

/** The methods of a contender that answers at once. */
function immediate(call, { keys }) {
  const next = sequence(keys);
  let sum = 0;
  return {
    fill(count = keys) {
      for (let number = 0; number < count; number++) call(keyOf(number));
    },
    run(operations) {
      const start = process.hrtime.bigint();
      for (let made = 0; made < operations; made++) sum += call(keyOf(next()));
      if (Number.isNaN(sum)) throw new Error('the calls must answer numbers');
      return nanoseconds(start, operations);
    },
    bytes: (count, entries = 1) =>
      growth(() => {
        for (let entry = 0; entry < entries; entry++) {
          for (let number = 0; number < count; number++) call(keyOf(number));
        }
      }),
    longest: (count) => longest(count, call),
  };
}

/** The methods of a contender that answers with a promise, which its users await. */
function awaited(call, valueOf, { keys }) {
  const next = sequence(keys);
  let sum = 0;
  return {
    async fill() {
      for (let number = 0; number < keys; number++) await call(keyOf(number));
    },
    async run(operations) {
      const start = process.hrtime.bigint();
      for (let made = 0; made < operations; made++) sum += valueOf(await call(keyOf(next())));
      if (Number.isNaN(sum)) throw new Error('the calls must answer numbers');
      return nanoseconds(start, operations);
    },
    bytes: (count) =>
      growth(async () => {
        for (let number = 0; number < count; number++) await call(keyOf(number));
      }),
  };
}

function sluice(policy, clock) {
  const store = memoryStore({ maxKeys: MAX_KEYS });
  return createLimiter({ policies: { p: policy }, store, ...(clock && { clock }) });
}

const counter = { algorithm: 'sliding-counter', limit: NEVER, window: WINDOW_MS };

export const contenders = {
  'sluice checkSync': (options) => {
    const limiter = sluice(counter);
    return immediate((key) => limiter.checkSync('p', key).remaining, options);
  },

  'sluice check, awaited': (options) => {
    const limiter = sluice(counter);
    return awaited(
      (key) => limiter.check('p', key),
      (decision) => decision.remaining,
      options,
    );
  },

  /** The log where nearly every call is admitted: a window so short that 100 suffice. */
  'sluice sliding-log, admitting': (options) => {
    const window = options.keys > 10_000 ? WINDOW_MS : 20;
    const limiter = sluice({ algorithm: 'sliding-log', limit: 100, window });
    return immediate((key) => limiter.checkSync('p', key).remaining, options);
  },

  /** The log where every key soon has its 100 entries and is denied. */
  'sluice sliding-log, denying': (options) => {
    const limiter = sluice({ algorithm: 'sliding-log', limit: 100, window: WINDOW_MS });
    return immediate((key) => limiter.checkSync('p', key).remaining, options);
  },

  /** The log on a clock that moves a millisecond each round: every admission is an entry. */
  'sluice sliding-log, entries': (options) => {
    let nowMs = 1_745_000_100_000;
    const clock = { now: () => nowMs, schedule: () => () => {} };
    const limiter = sluice({ algorithm: 'sliding-log', limit: 1000, window: WINDOW_MS }, clock);
    let calls = 0;
    return immediate((key) => {
      if (calls++ % options.keys === 0) nowMs++;
      return limiter.checkSync('p', key).remaining;
    }, options);
  },

  /** A limiter with a cap that throw-away keys run into. */
  'sluice flooded': ({ maxKeys, limit }) => {
    const store = memoryStore({ maxKeys });
    const policy = { algorithm: 'sliding-counter', limit, window: WINDOW_MS };
    const limiter = createLimiter({ policies: { p: policy }, store });
    limiter.checkSync('p', 'abuser', { cost: limit });
    let flooded = 0;
    const flood = (count) => {
      for (const end = flooded + count; flooded < end; flooded++) {
        limiter.checkSync('p', keyOf(flooded));
      }
    };
    return {
      bytes: (count) => growth(() => flood(count)),
      isFreed: () => limiter.checkSync('p', 'abuser').allowed,
      size: () => limiter.size,
      resident: () => process.memoryUsage().rss,
    };
  },

  'bare Map': (options) => {
    const counts = new Map();
    const call = (key) => {
      const count = (counts.get(key) ?? 0) + 1;
      counts.set(key, count);
      return count;
    };
    return { ...immediate(call, options), longest: (keys) => longestSet(keys, counts) };
  },

  'rate-limiter-flexible': (options) => {
    const limiter = new RateLimiterMemory({ points: NEVER, duration: WINDOW_MS / 1000 });
    return awaited(
      (key) => limiter.consume(key),
      (result) => result.remainingPoints,
      options,
    );
  },

  'express-rate-limit': (options) => {
    const store = new MemoryStore();
    store.init({ windowMs: WINDOW_MS });
    return awaited(
      (key) => store.increment(key),
      (info) => info.totalHits,
      options,
    );
  },
};

const longestSet = (keys, counts) => longest(keys, (key) => counts.set(key, 1));
