/**
 * Dashboard benchmark, with 20 policies and 100,000 keys under load. Measures how much an open
 * event stream costs the service, and the CPU time of the browser for each page.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { median, withContenders } from '../harness.mjs';
import { loadRows } from '../http/compare.mjs';
import { bar, round } from '../report.mjs';
import { policyName } from './parts.mjs';

const PARTS = new URL('parts.mjs', import.meta.url);
const LOAD = new URL('../http/load.mjs', import.meta.url);

const CONNECTIONS = 64;
const KEYS = 100_000;
const KEYS_PER_TURN = 5000;
/** A turn takes several seconds, because the stream sends one event per second. */
const REQUESTS_PER_TURN = 100_000;
/**
 * An even number, so that the runs with and without a stream each come first in half of the rounds.
 */
const ROUNDS = 12;
const PAGE_SECONDS = 12;
/** The policy page shows a policy with denials. The key page shows a key that is checked often. */
const PAGES = {
  overview: '#/overview',
  policy: `#/policy/${policyName(0)}`,
  key: `#/key/${policyName(1)}/${encodeURIComponent('user:1')}`,
  denials: '#/denials',
};
const MIN_THROUGHPUT_RATIO = 0.98;
const MAX_CORE_SHARE = 0.15;
/** The kernel reports CPU time in ticks of 10 ms. */
const TICKS_PER_SECOND = 100;

const checksOf = (turn) =>
  Array.from({ length: KEYS_PER_TURN }, (_, at) => {
    const number = (turn * KEYS_PER_TURN + at) % KEYS;
    const body = JSON.stringify({ policy: policyName(number), key: `user:${number}` });
    return { method: 'POST', path: '/v1/check', body };
  });

/** Alternates rounds with and without an open event stream. */
async function streamTurns({ service, listener, load }, progress) {
  const port = await service.call('port');
  const options = (turn) => ({ connections: CONNECTIONS, status: 200, messages: checksOf(turn) });
  for (let turn = 0; turn < KEYS / KEYS_PER_TURN; turn++) {
    await load.call('run', port, options(turn), KEYS_PER_TURN);
  }
  // Warm up both cases, because V8 recompiles code when the first stream opens.
  await listener.call('listen', port);
  await load.call('run', port, options(0), REQUESTS_PER_TURN);
  await listener.call('leave');
  const lanes = ['without feed', 'with feed'];
  const turns = new Map(lanes.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of round % 2 === 0 ? lanes : lanes.toReversed()) {
      if (name === 'with feed') await listener.call('listen', port);
      const before = await service.call('cpu');
      const cost = await load.call('run', port, options(round), REQUESTS_PER_TURN);
      const server = (1e3 * ((await service.call('cpu')) - before)) / REQUESTS_PER_TURN;
      turns.get(name).push({ ...cost, server });
      if (name === 'with feed') progress(`${await listener.call('leave')} ticks in a turn`);
    }
  }
  return turns;
}

/** Returns the CPU time of a process and its descendants, in ticks. */
function cpuTicksOfTree(pid) {
  const parents = new Map();
  const times = new Map();
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      parents.set(Number(name), Number(fields[1]));
      times.set(Number(name), Number(fields[11]) + Number(fields[12]));
    } catch {
      // The process has exited meanwhile.
    }
  }
  const isBelow = (each) => each === pid || (parents.has(each) && isBelow(parents.get(each)));
  return [...times].reduce((sum, [each, time]) => sum + (isBelow(each) ? time : 0), 0);
}

/** Runs a task while the service is under load. */
async function underLoad({ service, load }, task) {
  const port = await service.call('port');
  let isOver = false;
  const loading = (async () => {
    for (let turn = 0; !isOver; turn++) {
      // Also check one key in each turn, so that the key page has data.
      const options = {
        connections: 4,
        status: 200,
        messages: [...checksOf(turn), ...checksOf(0).slice(1, 2)],
      };
      await load.call('run', port, options, KEYS_PER_TURN);
    }
  })();
  try {
    return await task(port);
  } finally {
    isOver = true;
    await loading;
  }
}

/** Resolves to the part of a core that the whole browser uses while a page is open. */
async function pageShare(server, page, address) {
  await page.goto(address);
  await page.reload();
  await page.getByText('live', { exact: true }).waitFor();
  await sleep(3000);
  const { pid } = server.process();
  const before = cpuTicksOfTree(pid);
  const start = process.hrtime.bigint();
  await sleep(PAGE_SECONDS * 1000);
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  return (cpuTicksOfTree(pid) - before) / TICKS_PER_SECOND / seconds;
}

async function pageShares(parts) {
  const server = await chromium.launchServer({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  try {
    const browser = await chromium.connect(server.wsEndpoint());
    const page = await browser.newPage();
    return await underLoad(parts, async (port) => {
      const shares = {};
      for (const [name, hash] of Object.entries(PAGES)) {
        const address = `http://127.0.0.1:${port}/dashboard/${hash}`;
        shares[name] = round(await pageShare(server, page, address));
      }
      return shares;
    });
  } finally {
    await server.close();
  }
}

export async function dashboardBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  progress(`${ROUNDS} rounds, load average ${round(loadavg()[0])}`);
  await withContenders(LOAD, ['load'], {}, ([load]) =>
    withContenders(PARTS, ['service', 'listener'], {}, async ([service, listener]) => {
      const turns = await streamTurns({ service, listener, load }, progress);
      result.rows.push(...loadRows(turns, 'POST /v1/check'));
      const without = turns.get('without feed');
      const ratio = (field) =>
        round(median(turns.get('with feed').map((each, at) => without[at][field] / each[field])));
      const label = 'with feed / without feed';
      result.ratios[label] = ratio('time');
      result.ratios[`CPU, ${label}`] = ratio('server');
      result.bars.push(bar(label, '>=', MIN_THROUGHPUT_RATIO, result.ratios[label]));
      for (const [name, share] of Object.entries(await pageShares({ service, load }))) {
        result.bars.push(bar(`part of a core, ${name} page`, '<=', MAX_CORE_SHARE, share));
      }
    }),
  );
  return result;
}
