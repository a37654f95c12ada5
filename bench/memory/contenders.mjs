/**
 * The contenders of the memory benchmark: Sluice, the memory stores of two other limiters, and a
 * bare `Map` of counters, which limits nothing. The benchmark calls their public APIs with a new
 * key string for each call, as in a server. All use the real clock, except the Sluice contenders
 * with a `givenClock`.
 */
import { MemoryStore } from 'express-rate-limit';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { createLimiter, memoryStore } from 'sluice';

/** Returns a key of 14 characters: `user:` and nine digits. */
const keyOf = (number) => `user:${100_000_000 + number}`;

/** Default limit of all contenders: 100 per minute. */
const LIMIT = 100;
const WINDOW_MS = 60_000;
const MAX_KEYS = 4_000_000;
/** Number of warm-up calls before memory is measured, and the number of keys they use. */
const WARM_CALLS = 200_000;
const WARM_KEYS = 1000;

/** Returns a generator of pseudo-random key numbers, the same sequence for all contenders. */
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
 * Returns the resident bytes that a task retains after garbage collection. Creating a million
 * strings grows V8's young generation to its full 32 MB. The first loop causes this growth before
 * the measurement, so that only the memory of the keys is measured.
 */
async function growth(task) {
  const settled = () => {
    for (let time = 0; time < 4; time++) gc();
    return process.memoryUsage().rss;
  };
  for (let kept = [], number = 0; number < 2_000_000; number++) {
    kept.push(keyOf(number));
    if (kept.length > 50_000) kept = [];
  }
  const before = settled();
  await task();
  return settled() - before;
}

/** Returns the longest single call over `keys` new keys, in nanoseconds. */
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

/** Returns the methods of a contender with a synchronous API. */
function syncContender(call, { keys }) {
  const next = sequence(keys);
  let sum = 0;
  return {
    fill() {
      for (let number = 0; number < keys; number++) call(keyOf(number));
    },
    run(operations) {
      const start = process.hrtime.bigint();
      for (let made = 0; made < operations; made++) sum += call(keyOf(next()));
      if (Number.isNaN(sum)) throw new Error('Expected calls to return numbers');
      return nanoseconds(start, operations);
    },
    bytes(entries = 1) {
      for (let made = 0; made < WARM_CALLS; made++) call(keyOf(made % WARM_KEYS));
      return growth(() => {
        for (let entry = 0; entry < entries; entry++) {
          for (let number = 0; number < keys; number++) call(keyOf(WARM_KEYS + number));
        }
      });
    },
    longest: (count) => longest(count, call),
  };
}

/** Returns the methods of a contender with an asynchronous API. */
function asyncContender(call, numberIn, { keys }) {
  const next = sequence(keys);
  let sum = 0;
  /**
   * Calls the limiter and resolves to the number in its result. rate-limiter-flexible rejects with
   * the result if it denies.
   */
  const callOnce = async (key) => {
    try {
      return numberIn(await call(key));
    } catch (denial) {
      return numberIn(denial);
    }
  };
  return {
    async fill() {
      for (let number = 0; number < keys; number++) await callOnce(keyOf(number));
    },
    async run(operations) {
      const start = process.hrtime.bigint();
      for (let made = 0; made < operations; made++) {
        try {
          sum += numberIn(await call(keyOf(next())));
        } catch (denial) {
          sum += numberIn(denial);
        }
      }
      if (Number.isNaN(sum)) throw new Error('Expected calls to return numbers');
      return nanoseconds(start, operations);
    },
    async bytes() {
      for (let made = 0; made < WARM_CALLS; made++) await callOnce(keyOf(made % WARM_KEYS));
      return growth(async () => {
        for (let number = 0; number < keys; number++) await callOnce(keyOf(WARM_KEYS + number));
      });
    },
  };
}

function sluice(policy, clock) {
  const store = memoryStore({ maxKeys: MAX_KEYS });
  return createLimiter({ policies: { p: policy }, store, ...(clock && { clock }) });
}

const counter = ({ limit = LIMIT }) => ({ algorithm: 'sliding-counter', limit, window: WINDOW_MS });

/**
 * Returns a clock whose time the contender sets, as in a server that knows the arrival time of each
 * request.
 */
function givenClock() {
  const clock = { nowMs: 1_745_000_100_000, now: () => clock.nowMs, schedule: () => () => {} };
  return clock;
}

export const contenders = {
  'sluice checkSync': (options) => {
    const limiter = sluice(counter(options));
    return syncContender((key) => limiter.checkSync('p', key).remaining, options);
  },

  'sluice checkSync, time given': (options) => {
    const limiter = sluice(counter(options), givenClock());
    return syncContender((key) => limiter.checkSync('p', key).remaining, options);
  },

  'sluice check, awaited': (options) => {
    const limiter = sluice(counter(options));
    return asyncContender(
      (key) => limiter.check('p', key),
      (decision) => decision.remaining,
      options,
    );
  },

  /** A sliding log with the limit and the traffic of the sliding counter. */
  'sluice sliding-log': (options) => {
    const limiter = sluice({ algorithm: 'sliding-log', limit: LIMIT, window: WINDOW_MS });
    return syncContender((key) => limiter.checkSync('p', key).remaining, options);
  },

  /** A sliding log with a window so short that nearly every call is admitted. */
  'sluice sliding-log, admitting': (options) => {
    const limiter = sluice({ algorithm: 'sliding-log', limit: LIMIT, window: 20 });
    return syncContender((key) => limiter.checkSync('p', key).remaining, options);
  },

  /**
   * A sliding log with a clock that advances after each pass over all keys, so that each call adds
   * an entry.
   */
  'sluice sliding-log, entries': (options) => {
    const clock = givenClock();
    const policy = { algorithm: 'sliding-log', limit: 1_000_000, window: 60 * WINDOW_MS };
    const limiter = sluice(policy, clock);
    let calls = 0;
    return syncContender((key) => {
      if (calls++ % options.keys === 0) clock.nowMs++;
      return limiter.checkSync('p', key).remaining;
    }, options);
  },

  /** A limiter with one key at its limit. `bytes` adds keys that are used only once. */
  'sluice flooded': ({ maxKeys }) => {
    const policy = { algorithm: 'sliding-counter', limit: LIMIT, window: 60 * WINDOW_MS };
    const store = memoryStore({ maxKeys });
    const limiter = createLimiter({ policies: { p: policy }, store });
    limiter.checkSync('p', 'abuser', { cost: LIMIT });
    let flooded = 0;
    const flood = (count) => {
      for (const end = flooded + count; flooded < end; flooded++) {
        limiter.checkSync('p', keyOf(flooded));
      }
    };
    return {
      warm() {
        for (let made = 0; made < WARM_CALLS; made++) limiter.checkSync('p', keyOf(made % 100));
      },
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
    const longestSet = (keys) => longest(keys, (key) => counts.set(key, 1));
    return { ...syncContender(call, options), longest: longestSet };
  },

  'rate-limiter-flexible': (options) => {
    const { limit = LIMIT } = options;
    const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 });
    return asyncContender(
      (key) => limiter.consume(key),
      (result) => result.remainingPoints,
      options,
    );
  },

  'express-rate-limit': (options) => {
    const store = new MemoryStore();
    store.init({ windowMs: WINDOW_MS });
    return asyncContender(
      (key) => store.increment(key),
      (info) => info.totalHits,
      options,
    );
  },
};
