/**
 * Prints the growth of a service's memory in bytes when each of 1,000 policies receives its first
 * request. Started with --expose-gc.
 */
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { openStore, readSettings, startService } from '../../dist/index.js';

const POLICIES = 1000;
const policies = Array.from({ length: POLICIES }, (_, at) => ({
  name: `policy-${at}`,
  options: { limit: 10, window: '1m' },
  shadow: false,
}));
const config = { files: [], policies, rules: [], domains: [], overrides: [], settings: {} };
const { settings } = readSettings({ listen: '127.0.0.1:0' }, {}, {});
const store = await openStore(settings, { onWarning() {}, onConnection() {} });
const log = pino({ level: 'silent' }, { write() {} });
const service = await startService({ settings, store, log, config, load: async () => config });
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

async function check(policy) {
  const sent = request(`${service.url}/v1/check`, { method: 'POST', agent });
  sent.end(JSON.stringify({ policy, key: 'a' }));
  const [response] = await once(sent, 'response');
  await once(response.resume(), 'end');
}

async function usedBytes() {
  // The history is written once a second.
  await sleep(1500);
  for (let round = 0; round < 4; round++) globalThis.gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

for (let call = 0; call < 2 * POLICIES; call++) await check('policy-0');
const before = await usedBytes();
for (const { name } of policies) await check(name);
console.log((await usedBytes()) - before);
agent.destroy();
await service.close();
