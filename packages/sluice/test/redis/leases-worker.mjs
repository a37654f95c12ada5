/**
 * One of several processes that spend leases of one key. Makes `perSecond` calls, in portions every
 * millisecond. Writes to a file, at the end of each turn of the event loop: when the turn began,
 * its length, and the units admitted in it; in whole ms since `baseMs`.
 * SIGKILL therefore loses the log of one turn at most. Reports the number of decisions.
 */
import { openSync, writeSync } from 'node:fs';
import { setImmediate as endOfTurn, setTimeout as sleep } from 'node:timers/promises';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { machineMs } from '../../../../tools/admissions.mjs';
import { clients } from '../../../../tools/servers/clients.mjs';

const REPORT_MS = 100;
const SLOW_MS = 1;
/** Calls in one turn at most, so that a process that was stopped does not make all at once. */
const MOST_IN_TURN = 500;

const { url, policy, perSecond, baseMs, file, store: options } = JSON.parse(process.argv[2]);
const output = openSync(file, 'a');
const { client } = await clients.ioredis(url);
const limiter = createLimiter({
  policies: { hot: policy },
  store: redisStore(client, { leases: {}, onFailure: 'deny', ...options }),
});
process.once('disconnect', () => process.exit());

/** The units admitted since the last turn, by the beginning of the turn of their calls. */
const seen = new Map();
const counts = { decisions: 0, denied: 0, leased: 0, degraded: 0, slow: 0 };

async function call(beforeMs) {
  const calledMs = performance.now();
  const { allowed, leased, degraded } = await limiter.check('hot', 'k');
  if (performance.now() - calledMs >= SLOW_MS) counts.slow++;
  counts.decisions++;
  if (degraded) counts.degraded++;
  if (leased) counts.leased++;
  if (allowed) seen.set(beforeMs, (seen.get(beforeMs) ?? 0) + 1);
  else counts.denied++;
}

function writeSeen() {
  if (seen.size === 0) return;
  const toMs = Math.ceil(machineMs() - baseMs);
  const numbers = [...seen].flatMap(([fromMs, units]) => [fromMs, toMs - fromMs, units]);
  writeSync(output, Uint32Array.from(numbers));
  seen.clear();
}

let reportedMs = 0;
function report(nowMs) {
  if (nowMs < reportedMs + REPORT_MS) return;
  reportedMs = nowMs;
  process.send({ ...counts });
}

for (let lastMs = machineMs(), due = 0; ; ) {
  const nowMs = machineMs();
  due = Math.min(due + ((nowMs - lastMs) * perSecond) / 1000, MOST_IN_TURN);
  lastMs = nowMs;
  const beforeMs = Math.floor(nowMs - baseMs);
  for (; due >= 1; due--) void call(beforeMs);
  await endOfTurn();
  writeSeen();
  report(nowMs);
  await sleep(1);
}
