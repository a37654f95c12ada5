/**
 * Measures how long a memory limiter blocks the event loop: mixed operations over many keys, some
 * with long logs, while waiters arrive, are served, aborted and denied.
 *
 *     npm run event-loop
 *     npm run event-loop -- --operations 100000 --waiters 10000 --entries 10000 --json
 *     npm run event-loop -- --library ../before/packages/sluice/dist/index.js
 *
 * Measures the library of this repository, an empty limiter (the lower bound on this machine) and
 * each given library, each in its own process. The row `event loop` has the times between two turns
 * of a `setImmediate` loop. They include garbage collection, which also has its own row. On a busy
 * machine, see the row `processor time`: the CPU time of all threads of the process.
 */
import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { createHistogram, monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const OPTIONS = {
  library: { type: 'string', multiple: true, default: [] },
  operations: { type: 'string', default: '1000000' },
  waiters: { type: 'string', default: '100000' },
  entries: { type: 'string', default: '100000' },
  window: { type: 'string', default: '5000' },
  json: { type: 'boolean', default: false },
  measure: { type: 'string' },
};
const OPERATIONS_IN_TURN = 5;
const LONG_LOGS = 4;
const KEYS = 20_000;
const HOUR_MS = 3_600_000;

/** Returns a seeded generator of integers below `limit`. */
function numbers(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Records durations in ms, by name. */
class Durations {
  #histograms = new Map();

  time(name, work) {
    const startMs = performance.now();
    const result = work();
    this.add(name, performance.now() - startMs);
    return result;
  }

  add(name, durationMs) {
    const histogram = this.#histograms.get(name) ?? createHistogram();
    this.#histograms.set(name, histogram);
    histogram.record(Math.max(1, Math.round(durationMs * 1e6)));
  }

  get rows() {
    return [...this.#histograms].map(([name, histogram]) => ({
      name,
      count: histogram.count,
      p99Ms: histogram.percentile(99) / 1e6,
      p9999Ms: histogram.percentile(99.99) / 1e6,
      maxMs: histogram.max / 1e6,
    }));
  }
}

const turn = () => new Promise((done) => setImmediate(done));

/** Creates a limiter. `fill` sets its clock back and adds one log entry per millisecond. */
function openLimiter({ createLimiter, memoryStore, systemClock }, sizes) {
  let behindMs = 0;
  const clock = {
    now: () => Date.now() - behindMs,
    schedule: (delayMs, wake) => systemClock.schedule(delayMs, wake),
  };
  const limiter = createLimiter({
    policies: {
      long: { limit: 2 * sizes.entries, window: '1h' },
      log: '100/1m',
      counter: { limit: 100, window: '1m', algorithm: 'sliding-counter' },
      bucket: { limit: 100, window: '1m', algorithm: 'token-bucket' },
      line: { limit: sizes.waiters, window: '1h' },
      slow: { limit: 100, window: sizes.window, algorithm: 'sliding-counter' },
      single: { limit: 1, window: sizes.window },
    },
    store: memoryStore(),
    clock,
  });
  const fill = () => {
    for (behindMs = sizes.entries; behindMs > 0; behindMs--) {
      for (let key = 0; key < LONG_LOGS; key++) limiter.checkSync('long', `long${key}`);
    }
  };
  return { limiter, fill };
}

/** Returns a function that runs the next operation of the mix and records its duration. */
function mix(limiter, durations) {
  const random = numbers(7);
  const receipts = [];
  const short = ['log', 'counter', 'bucket'];
  const randomLimit = () => {
    if (random(10) === 0) return ['long', `long${random(LONG_LOGS)}`];
    return [short[random(3)], `user:${random(KEYS)}`];
  };
  const keep = ({ receipt }) => {
    if (receipt && receipts.push(receipt) > 50_000) receipts[random(50_000)] = receipts.pop();
  };
  const used = () => receipts.splice(-1 - random(Math.min(100, receipts.length)), 1)[0];
  let count = 0;
  const kinds = {
    check: () => keep(limiter.checkSync(...randomLimit())),
    peek: () => limiter.peekSync(...randomLimit(), { cost: 1 }),
    joint: () => {
      const key = `user:${random(KEYS)}`;
      keep(limiter.checkSync(short.map((policy) => ({ policy, key }))));
    },
    id: () => limiter.checkSync('log', `user:${random(KEYS)}`, { id: `call:${count}` }),
    refund: () => receipts.length > 0 && limiter.refundSync(used()),
    settle: () => receipts.length > 0 && limiter.settleSync(used(), random(3)),
    reset: () => limiter.resetSync(short[random(3)], `user:${random(KEYS)}`),
    inspect: () => limiter.inspectSync(...randomLimit()),
  };
  const parts = Object.entries({
    check: 45,
    peek: 20,
    joint: 5,
    id: 8,
    refund: 8,
    settle: 7,
    reset: 4,
    inspect: 3,
  }).flatMap(([kind, share]) => Array(share).fill(kind));
  return () => {
    const kind = parts[count++ % parts.length];
    durations.time(kind, kinds[kind]);
  };
}

/**
 * Prepares five groups of waiters: served after a reset, aborted by a shared signal, denied at a
 * shared deadline, served on separate keys, and rejected by `close`.
 */
function groups(limiter, sizes) {
  const stop = new AbortController();
  const { signal } = stop;
  const lines = ['served', 'aborted', 'closed'];
  for (const key of lines) limiter.checkSync('line', key, { cost: sizes.waiters });
  // The estimated wait of a sliding counter ignores earlier waiters, so all of these waiters wait
  // until the deadline.
  limiter.checkSync('slow', 'denied', { cost: 100 });
  limiter.acquire('slow', 'denied', { cost: 100 }).catch(() => {});
  const deadlineMs = Date.now() + 1.4 * sizes.window;
  const maxWaitMs = 2 * HOUR_MS;
  const arrivals = [
    () => limiter.acquire('line', 'served', { maxWaitMs }),
    () => limiter.acquire('line', 'aborted', { maxWaitMs, signal }),
    () => limiter.acquire('slow', 'denied', { maxWaitMs: Math.max(0, deadlineMs - Date.now()) }),
    (at) => {
      limiter.checkSync('single', `key:${at}`);
      return limiter.acquire('single', `key:${at}`, { maxWaitMs });
    },
    (at) =>
      limiter.acquire([
        { policy: 'line', key: 'closed' },
        { policy: 'counter', key: `user:${at % 100}` },
      ]),
  ];
  return {
    deadlineMs,
    arrive: (at) => arrivals[at % arrivals.length](at),
    reset: () => limiter.resetSync('line', 'served'),
    abort: () => stop.abort(new Error('aborted')),
  };
}

/** Measures a library in this process. */
async function measure(library, sizes) {
  const durations = new Durations();
  const { limiter, fill } = openLimiter(await import(pathToFileURL(library).href), sizes);
  fill();
  const operate = mix(limiter, durations);
  const { deadlineMs, arrive, reset, abort } = groups(limiter, sizes);
  const ended = {};
  const count = (how) => {
    ended[how] = (ended[how] ?? 0) + 1;
  };
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) durations.add('garbage collection', duration);
  });
  observer.observe({ entryTypes: ['gc'] });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();

  let arrived = 0;
  let operations = 0;
  let lastMs = performance.now();
  let lastUsage = process.cpuUsage();
  const startMs = lastMs;
  /** Runs one turn of the event loop, with some operations and some arrivals. */
  const next = async (work) => {
    for (let time = 0; work && time < OPERATIONS_IN_TURN; time++, operations++) operate();
    for (let time = 0; work && time < 2 && arrived < sizes.waiters; time++, arrived++) {
      const waiting = durations.time('acquire', () => arrive(arrived));
      waiting.then(
        ({ allowed }) => count(allowed ? 'served' : 'denied'),
        ({ message }) => count(message),
      );
    }
    await turn();
    const nowMs = performance.now();
    durations.add('event loop', nowMs - lastMs);
    lastMs = nowMs;
    const { user, system } = process.cpuUsage(lastUsage);
    durations.add('processor time', (user + system) / 1000);
    lastUsage = process.cpuUsage();
  };
  while (operations < sizes.operations / 2 || arrived < sizes.waiters) await next(true);
  // On a slow machine, the waiters arrive after the deadline. All windows must end before `close`.
  const endMs = Math.max(deadlineMs, Date.now()) + 2 * sizes.window;
  durations.time('reset of a line', reset);
  while (operations < 0.7 * sizes.operations) await next(true);
  durations.time('abort of a signal', abort);
  while (operations < sizes.operations || Date.now() < endMs) await next(true);
  durations.time('close', () => void limiter.close());
  const total = () => Object.values(ended).reduce((sum, each) => sum + each, 0);
  while (total() < sizes.waiters) await next(false);
  delay.disable();
  const seconds = (performance.now() - startMs) / 1000;
  return { library, seconds, ended, delayMs: delay.max / 1e6, durations: durations.rows };
}

/** Measures a library in a child process. */
function measureInChild(library, values) {
  const sizes = ['operations', 'waiters', 'entries', 'window'].flatMap((name) => [
    `--${name}`,
    values[name],
  ]);
  const child = [process.argv[1], '--measure', resolve(library), ...sizes];
  const { status, stdout, stderr } = spawnSync(process.execPath, child, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${library}: ${stderr}`);
  return JSON.parse(stdout);
}

function print({ library, seconds, ended, delayMs, durations }) {
  console.log(`${library}\n  ${seconds.toFixed(1)} s, waiters: ${JSON.stringify(ended)}`);
  console.log(`  longest delay by perf_hooks: ${delayMs.toFixed(2)} ms`);
  console.log(
    `  ${'ms'.padEnd(20)}${'count'.padStart(10)}${'p99'.padStart(10)}`.concat(
      `${'p99.99'.padStart(10)}${'longest'.padStart(10)}`,
    ),
  );
  for (const { name, count, p99Ms, p9999Ms, maxMs } of durations) {
    const figures = [p99Ms, p9999Ms, maxMs].map((ms) => ms.toFixed(3).padStart(10)).join('');
    console.log(`  ${name.padEnd(20)}${String(count).padStart(10)}${figures}`);
  }
}

const { values } = parseArgs({ options: OPTIONS });
if (values.measure !== undefined) {
  const sizes = Object.fromEntries(
    ['operations', 'waiters', 'entries', 'window'].map((name) => [name, Number(values[name])]),
  );
  console.log(JSON.stringify(await measure(values.measure, sizes)));
  process.exit();
}
const FLOOR = 'tools/event-loop-floor.mjs';
const results = ['packages/sluice/lib/index.js', FLOOR, ...values.library].map((library) => {
  const result = measureInChild(library, values);
  if (!values.json) print(result);
  return result;
});
if (values.json) console.log(JSON.stringify(results));
