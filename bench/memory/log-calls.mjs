/**
 * Measures single calls on one sliding log of 100,000 entries. Prints the number of calls of each
 * operation, and the median, the 99.99th percentile and the maximum duration in milliseconds.
 *
 *     node bench/memory/log-calls.mjs [module of the library] [operations]
 */
import { performance } from 'node:perf_hooks';

const { createLimiter } = await import(process.argv[2] ?? 'sluice');

const ENTRIES = 100_000;
const OPERATIONS = Number(process.argv[3] ?? 100_000);
const WINDOW_MS = 1_000_000;

const clock = { nowMs: 1_745_000_100_000, now: () => clock.nowMs, schedule: () => () => {} };
const policies = { p: { algorithm: 'sliding-log', limit: ENTRIES, window: WINDOW_MS } };
const limiter = createLimiter({ policies, clock });
const receipts = [];
const times = {};

function timed(name, call) {
  const start = performance.now();
  const result = call();
  const list = times[name] ?? [];
  times[name] = list;
  list.push(performance.now() - start);
  return result;
}

function check(name = 'check') {
  clock.nowMs++;
  const { receipt } = timed(name, () => limiter.checkSync('p', 'key'));
  if (receipt) receipts.push(receipt);
}

/** Refunds or settles one receipt: the oldest for `part` 0, the newest for `part` 1. */
function refundOrSettle(name, part, call) {
  const at = Math.min(Math.floor(part * receipts.length), receipts.length - 1);
  const [receipt] = receipts.splice(at, 1);
  timed(name, () => call(receipt));
}

const refund = (receipt) => limiter.refundSync(receipt);
const calls = [
  () => refundOrSettle('refund newest', 1, refund),
  () => refundOrSettle('refund oldest', 0, refund),
  () => refundOrSettle('refund middle', 0.5, refund),
  () => refundOrSettle('settle middle', 0.5, (receipt) => limiter.settleSync(receipt, 2)),
  () => timed('peek', () => limiter.peekSync('p', 'key')),
  () => timed('denial', () => limiter.checkSync('p', 'key', { cost: ENTRIES })),
];

// In the first round, V8 compiles the code. Only the second round is reported.
for (const isReported of [false, true]) {
  for (const name of Object.keys(times)) delete times[name];
  for (let made = 0; made < ENTRIES; made++) check('check, growing');
  for (let made = 0; made < OPERATIONS; made++) {
    check();
    calls[made % calls.length]();
    if (made % 100 === 0) timed('inspect', () => limiter.inspectSync('p', 'key'));
  }
  // First half of the entries expire, then all others at once. The calls after each step only peek
  // or are denied.
  clock.nowMs += WINDOW_MS - ENTRIES / 2;
  for (let made = 0; made < 100; made++) calls[4 + (made % 2)]();
  clock.nowMs += WINDOW_MS;
  for (let made = 0; made < 100; made++) calls[4 + (made % 2)]();
  check('check after all expired');
  clock.nowMs -= WINDOW_MS / 2;
  check('check after the clock went back');
  receipts.length = 0;
  clock.nowMs += 4 * WINDOW_MS;
  if (!isReported) continue;
  const all = Object.values(times).flat();
  const inMs = (list) => [...list].sort((a, b) => a - b);
  for (const [name, list] of [...Object.entries(times), ['all', all]]) {
    const sorted = inMs(list);
    const at = (part) => sorted[Math.min(Math.floor(part * sorted.length), sorted.length - 1)];
    const figures = [at(0.5), at(0.9999), at(1)].map((ms) => ms.toFixed(4).padStart(10)).join(' ');
    console.log(name.padEnd(32), String(list.length).padStart(8), figures);
  }
}
