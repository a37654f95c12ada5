/**
 * HTTP benchmark: the server's CPU time per request without a limiter, with Sluice and with the
 * most used limiter of each framework. On a busy machine, CPU time varies less than throughput.
 */
import { loadavg } from 'node:os';
import { takeTurns, withContenders } from '../harness.mjs';
import { round } from '../report.mjs';
import { compare, loadRows } from './compare.mjs';

const SERVERS = new URL('servers.mjs', import.meta.url);
const LOAD = new URL('load.mjs', import.meta.url);

/**
 * `ofBare` is the required ratio of the CPU time of the bare app to that of the app with Sluice.
 * `requests` is the number of requests in a turn, chosen so that a turn takes about the same time
 * with each framework.
 */
const FRAMEWORKS = {
  express: { peer: 'express-rate-limit', ofBare: 0.85, requests: 2_000 },
  fastify: { peer: '@fastify/rate-limit', ofBare: 0.82, requests: 6_000 },
  hono: { peer: 'hono-rate-limiter', front: 'sluice in front', ofBare: 0.75, requests: 6_000 },
};
const OF_PEER = 1;

const CONNECTIONS = 64;
/**
 * Turns that are not measured, because V8 compiles the code. That takes longer for an app with more
 * code.
 */
const WARM_UP_TURNS = 8;
const TURNS = 3;

const TRAFFICS = [
  {
    traffic: 'all allowed',
    // Each start uses new processes, because two processes with the same code may differ in speed
    // by 10 % as long as they run.
    starts: 5,
    options: { limit: 1_000_000_000, windowMs: 60_000 },
    status: 200,
    comparisons: ({ bare, ours, peer, front, ofBare }) => [
      [ours, bare, ofBare],
      [ours, peer, OF_PEER],
      [peer, bare],
      ...(front ? [[front, bare]] : []),
    ],
  },
  {
    traffic: 'all denied',
    starts: 1,
    // The window is longer than the benchmark, so only the first request is allowed.
    options: { limit: 1, windowMs: 3_600_000 },
    status: 429,
    comparisons: ({ ours, peer }) => [[ours, peer, OF_PEER]],
  },
];

/** A server and its load generator, with the methods that the harness calls on a contender. */
class LoadedServer {
  constructor(server, load, status) {
    this.name = server.name;
    this.server = server;
    this.load = load;
    this.status = status;
  }

  /** Throws unless the server responds with the expected statuses and headers. */
  async verify() {
    this.port = await this.server.call('port');
    const request = () => fetch(`http://127.0.0.1:${this.port}/`);
    const responses = [await request(), await request()];
    const hasHeaders = responses.every(({ headers }) =>
      [...headers.keys()].some((name) => name.startsWith('ratelimit')),
    );
    const isLimited = !this.name.endsWith(', bare');
    await Promise.all(responses.map((response) => response.text()));
    const [first, second] = responses.map(({ status }) => status);
    if (first !== 200 || second !== this.status || hasHeaders !== isLimited) {
      const got = `${first}, then ${second}, rate-limit headers: ${hasHeaders}`;
      throw new Error(`${this.name}: expected 200, then ${this.status}, got ${got}`);
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

async function measure(result, framework, { traffic, starts, options, status, comparisons }) {
  const { peer, front, ofBare, requests } = FRAMEWORKS[framework];
  const compared = comparisons({
    bare: `${framework}, bare`,
    ours: `${framework}, sluice`,
    peer: `${framework}, ${peer}`,
    front: front && `${framework}, ${front}`,
    ofBare,
  });
  const names = [...new Set(compared.flatMap(([name, other]) => [other, name]))];
  const turns = new Map(names.map((name) => [name, []]));
  for (let start = 0; start < starts; start++) {
    await withContenders(LOAD, ['load'], {}, ([load]) =>
      withContenders(SERVERS, names, options, async (servers) => {
        const lanes = servers.map((server) => new LoadedServer(server, load, status));
        for (const lane of lanes) await lane.verify();
        await takeTurns(lanes, WARM_UP_TURNS, requests);
        const measured = await takeTurns(lanes, TURNS, requests);
        for (const [name, each] of measured) turns.get(name).push(...each);
      }),
    );
  }
  result.rows.push(...loadRows(turns, traffic));
  for (const each of compared) compare(result, turns, traffic, each, 'server');
}

export async function httpBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  for (const each of TRAFFICS) {
    for (const framework of Object.keys(FRAMEWORKS)) {
      const busy = round(loadavg()[0]);
      progress(`${framework}, ${each.traffic}: ${each.starts} starts, load average ${busy}`);
      await measure(result, framework, each);
    }
  }
  return result;
}
