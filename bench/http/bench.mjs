/** The HTTP benchmark: what a limiter leaves of the speed of a server, by framework. */
import { loadavg } from 'node:os';
import { takeTurns, withContenders } from '../harness.mjs';
import { round } from '../report.mjs';
import { compare, loadRows } from './compare.mjs';

const SERVERS = new URL('servers.mjs', import.meta.url);
const LOAD = new URL('load.mjs', import.meta.url);

/** What is left of a bare server's speed, and how many times as fast as a peer it has to be. */
const OF_BARE = 0.9;
const OF_PEER = 1;

const PEERS = {
  express: 'express-rate-limit',
  fastify: '@fastify/rate-limit',
  hono: 'hono-rate-limiter',
};

/** Where there is another way than a middleware, because that alone takes a tenth. */
const FRONTS = { hono: 'sluice in front' };

const CONNECTIONS = 64;

/** Requests a turn, so that it takes about as long with each framework: a quarter of a second. */
const REQUESTS = { express: 2_500, fastify: 10_000, hono: 10_000 };
const WARM_UP_TURNS = 5;

/**
 * How often all servers are started anew. Two processes of the same code may differ by a tenth for
 * as long as they live, by how they happened to be compiled and laid out.
 */
const STARTS = 12;

const TRAFFICS = [
  {
    traffic: 'all pass',
    rounds: 4,
    options: { limit: 1_000_000_000, windowMs: 60_000 },
    status: 200,
    needs: ({ bare, ours, peer, empty, front }) => [
      // What an empty middleware takes is not the limiter's: where that is much, it goes in front.
      ...(front
        ? [
            [front, bare, OF_BARE],
            [ours, bare],
          ]
        : [[ours, bare, OF_BARE]]),
      [ours, peer, OF_PEER],
      [peer, bare],
      [empty, bare],
    ],
  },
  {
    // The window is longer than the benchmark, so that nothing passes after the first.
    traffic: 'all refused',
    rounds: 2,
    options: { limit: 1, windowMs: 3_600_000 },
    status: 429,
    needs: ({ ours, peer, front }) => [[ours, peer], ...(front ? [[front, peer]] : [])],
  },
];

/** The load on one server, as the harness lets contenders take turns. */
class Lane {
  constructor(server, load, status) {
    this.name = server.name;
    this.server = server;
    this.load = load;
    this.status = status;
  }

  /** Does what it is for, before it is measured how fast: answers, and says its limits or none. */
  async prove() {
    this.port = await this.server.call('port');
    const ask = () => fetch(`http://127.0.0.1:${this.port}/`);
    // What is to refuse has to let the first one pass.
    const answers = [await ask(), await ask()];
    const says = answers.every(({ headers }) => [...headers.keys()].some(isRateLimitField));
    await Promise.all(answers.map((answer) => answer.text()));
    const [first, second] = answers.map(({ status }) => status);
    if (first !== 200 || second !== this.status || says === isUnlimited(this.name)) {
      throw new Error(`${this.name} answers ${first}, then ${second}, with fields: ${says}`);
    }
  }

  async call(_, requests) {
    const before = await this.server.call('cpu');
    const options = { connections: CONNECTIONS, status: this.status };
    const cost = await this.load.call('run', this.port, options, requests);
    const cpu = (await this.server.call('cpu')) - before;
    return { ...cost, server: (1e3 * cpu) / requests };
  }
}

const isUnlimited = (name) => /, (?:bare|empty middleware)$/.test(name);
const isRateLimitField = (name) => name.startsWith('ratelimit');

async function measure(result, framework, { traffic, rounds, options, status, needs }) {
  const called = (what) => what && `${framework}, ${what}`;
  const needed = needs({
    bare: called('bare'),
    ours: called('sluice'),
    peer: called(PEERS[framework]),
    empty: called('empty middleware'),
    front: called(FRONTS[framework]),
  });
  const names = [...new Set(needed.flatMap(([name, peer]) => [peer, name]))];
  const requests = REQUESTS[framework];
  const turns = new Map(names.map((name) => [name, []]));
  for (let start = 0; start < STARTS; start++) {
    await withContenders(LOAD, ['load'], {}, ([load]) =>
      withContenders(SERVERS, names, options, async (servers) => {
        const lanes = servers.map((server) => new Lane(server, load, status));
        for (const lane of lanes) await lane.prove();
        await takeTurns(lanes, WARM_UP_TURNS, requests);
        const taken = await takeTurns(lanes, rounds, requests);
        for (const [name, each] of taken) turns.get(name).push(...each);
      }),
    );
  }
  result.rows.push(...loadRows(turns, traffic));
  for (const need of needed) compare(result, turns, traffic, need);
}

export async function httpBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  for (const each of TRAFFICS) {
    for (const framework of Object.keys(PEERS)) {
      const busy = round(loadavg()[0]);
      progress(
        `${framework}, ${each.traffic}: ${STARTS} x ${each.rounds} rounds, load average ${busy}`,
      );
      await measure(result, framework, each);
    }
  }
  return result;
}
