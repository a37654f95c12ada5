/**
 * One of several processes that check the same keys at a steady rate while servers fail. Each key
 * is checked with every given `onFailure` setting in turn. It reports its progress to the parent
 * process and, when it is stopped, writes one row for each call to a file: setting, key, when the
 * call began and ended, the time of its decision, whether it was admitted, whether degraded.
 */
import { writeFileSync } from 'node:fs';
import { createLimiter } from 'sluice';
import { redisStore } from 'sluice/redis';
import { clients, clusterClients, sentinelClients } from '../../../../tools/servers/clients.mjs';

const TICK_MS = 5;
const REPORT_MS = 25;

const {
  target,
  client: name,
  policy,
  keys,
  perSecond,
  settings,
  file,
} = JSON.parse(process.argv[2]);

function open() {
  if (target.sentinels) return sentinelClients[name](target.sentinels, target.masterName);
  if (target.nodes) return clusterClients[name](target.nodes);
  return clients[name](target.url);
}

const nowMs = () => performance.timeOrigin + performance.now();

const { client, close } = await open();
const warnings = [];
const limiters = settings.map(({ prefix, ...options }) => {
  const onWarning = ({ code }) => warnings.push(code);
  // Without cached denials, a decision that is not degraded comes from a server.
  const store = redisStore(client, { prefix, onWarning, denyCache: false, ...options });
  return createLimiter({ policies: { p: policy }, store });
});

const rows = [];
const errors = [];
/** For each setting and key, when the last call began that a server decided. */
const decidedMs = settings.map(() => keys.map(() => 0));
let waiting = 0;

async function call(setting, key) {
  const begunMs = nowMs();
  waiting++;
  try {
    const { allowed, atMs, degraded } = await limiters[setting].check('p', keys[key]);
    if (!degraded) decidedMs[setting][key] = Math.max(decidedMs[setting][key], begunMs);
    rows.push(setting, key, begunMs, nowMs(), atMs, allowed ? 1 : 0, degraded ? 1 : 0);
  } catch (error) {
    errors.push(String(error));
  }
  waiting--;
}

const startedMs = nowMs();
let calls = 0;
const load = setInterval(() => {
  const due = Math.floor(((nowMs() - startedMs) * perSecond) / 1000);
  for (; calls < due; calls++) {
    const setting = calls % settings.length;
    const key = Math.floor(calls / settings.length) % keys.length;
    // Each in a turn of its own, as requests arrive, so that they are not batched.
    setImmediate(call, setting, key);
  }
}, TICK_MS);
const report = () => process.send({ decidedMs });
const reports = setInterval(report, REPORT_MS);

process.once('message', async () => {
  clearInterval(load);
  clearInterval(reports);
  const deadlineMs = nowMs() + 5000;
  do await new Promise((resolve) => setTimeout(resolve, 20));
  while (waiting > 0 && nowMs() < deadlineMs);
  writeFileSync(file, Buffer.from(Float64Array.from(rows).buffer));
  process.send({ decidedMs, warnings, errors: errors.slice(0, 10), waiting }, () => {
    void close();
    process.disconnect();
    setTimeout(() => process.exit(0), 50);
  });
});
