/**
 * Measures with MEMORY USAGE how much memory Redis uses for a call in a log and for a key with a
 * counter.
 */
import { ManualClock } from 'sluice';
import { connect, expressStore, flexible, sluice, sortedSetLog } from './clients.mjs';
import { keyOf } from './load.mjs';

const WINDOW_MS = 60_000;
const CALLS = 1000;
const KEYS = 1000;

/** Returns the cost of the calls of the key with this number, from 1 to 500. */
const countOf = (number) => 1 + (number % 500);

const numbers = (count) => Array.from({ length: count }, (_, number) => number);

async function expectAllowed(promise) {
  const decision = await promise;
  if (!decision.allowed) throw new Error('Expected all calls to be allowed, got a denial');
}

/** Makes each call in a different millisecond, because calls in one millisecond share an entry. */
async function fillLog(client, cost) {
  const clock = new ManualClock(Date.now());
  const policy = { algorithm: 'sliding-log', limit: CALLS * cost, window: WINDOW_MS };
  const check = sluice(client, { perMinute: policy }, { clock });
  for (let made = 0; made < CALLS; made++) {
    await expectAllowed(check(keyOf(0), { cost }));
    clock.advance(1);
  }
}

async function fillSortedSet(client) {
  const log = sortedSetLog(client, { limit: CALLS, windowMs: WINDOW_MS });
  for (let made = 0; made < CALLS; made++) await log(keyOf(0));
}

/** Fills two windows in a row, so that the counts of the previous and current window are stored. */
async function fillCounters(client) {
  const clock = new ManualClock(Date.now());
  const policy = { algorithm: 'sliding-counter', limit: 1000, window: WINDOW_MS };
  const check = sluice(client, { perMinute: policy }, { clock });
  for (let window = 0; window < 2; window++) {
    const calls = numbers(KEYS).map((each) => check(keyOf(each), { cost: countOf(each) }));
    await Promise.all(calls.map(expectAllowed));
    clock.advance(WINDOW_MS);
  }
}

async function fillFlexible(client) {
  const consume = flexible(client, { limit: 1000, windowMs: WINDOW_MS });
  await Promise.all(numbers(KEYS).map((each) => consume(keyOf(each), countOf(each))));
}

/** Makes only three calls per key, because in rate-limit-redis all counts take the same memory. */
async function fillExpressStore(client) {
  const increment = await expressStore(client, { windowMs: WINDOW_MS });
  for (let made = 0; made < 3; made++) {
    await Promise.all(numbers(KEYS).map((each) => increment(keyOf(each))));
  }
}

export const SIZES = [
  { name: 'sluice sliding-log', unit: 'call', fill: (client) => fillLog(client, 1), most: 9 },
  {
    name: 'sluice sliding-log, cost 100',
    unit: 'call',
    fill: (client) => fillLog(client, 100),
    most: 9,
  },
  { name: 'sorted-set log', unit: 'call', fill: fillSortedSet },
  { name: 'sluice sliding-counter', unit: 'key', fill: fillCounters, most: 96 },
  { name: 'rate-limiter-flexible', unit: 'key', fill: fillFlexible },
  { name: 'rate-limit-redis', unit: 'key', fill: fillExpressStore },
];

/**
 * Resolves to the memory of all stored keys after `fill`, divided by the number of calls or keys.
 */
export async function bytesPerUnit(port, { unit, fill }) {
  const client = await connect(port);
  try {
    await client.flushall();
    await fill(client);
    const names = await client.keys('*');
    if (unit === 'key' && names.length !== KEYS) throw new Error(`${names.length} keys`);
    const sizes = names.map((name) => client.call('MEMORY', 'USAGE', name, 'SAMPLES', '0'));
    const sum = (await Promise.all(sizes)).reduce((total, size) => total + size, 0);
    return sum / (unit === 'key' ? KEYS : CALLS);
  } finally {
    client.disconnect();
  }
}
