/** Service benchmark: throughput relative to a bare server, which makes no decisions. */
import { loadavg } from 'node:os';
import { median, takeTurns, withContenders } from '../harness.mjs';
import { compare, loadRows } from '../http/compare.mjs';
import { bar, round } from '../report.mjs';

const SERVERS = new URL('servers.mjs', import.meta.url);
const LOAD = new URL('../http/load.mjs', import.meta.url);
const GRPC_LOAD = new URL('grpc-load.mjs', import.meta.url);

const CONNECTIONS = 64;
const KEYS = 1000;
const BATCH = 100;
const ROUNDS = 11;
const WARM_UP_TURNS = 3;

const key = (number) => `user:${number}`;
const all = (count, make) => Array.from({ length: count }, (_, number) => make(number));
const post = (body) => ({ method: 'POST', path: '/v1/check', body: JSON.stringify(body) });
const check = (number) => ({ policy: 'perMinute', key: key(number) });

const checks = all(KEYS, (number) => post(check(number)));
const forwarded = all(KEYS, (number) => ({
  method: 'GET',
  path: '/v1/forward-auth',
  fields: [
    'X-Forwarded-Method: GET',
    'X-Forwarded-Uri: /api/items?page=2',
    'X-Forwarded-Host: api.example.com',
    `X-Forwarded-For: 198.51.${100 + (number >> 8)}.${number & 255}`,
  ],
}));
const batches = all(KEYS / BATCH, (turn) =>
  post({ checks: all(BATCH, (number) => check(BATCH * turn + number)) }),
);

/** The requests of each contender, and their number in a turn, which takes about half a second. */
const PLANS = {
  'bare POST': { messages: checks, requests: 12_000 },
  'POST /v1/check': { messages: checks, requests: 12_000 },
  'bare GET': { messages: forwarded, requests: 30_000 },
  'forward-auth': { messages: forwarded, requests: 30_000 },
  'batch of 100': { messages: batches, requests: 1500 },
  gRPC: { requests: 4000 },
};

/**
 * Required decisions and calls per second on a machine where the bare server handles `BARE_POSTS`
 * requests per second. The required bounds are the ratios of these figures, so that they hold on
 * any machine.
 */
const BARE_POSTS = 27_000;
const BATCHED_DECISIONS = 150_000;
const GRPC_CALLS = 8000;
/** Required throughput relative to the bare server of the same method. */
const OF_BARE = { 'POST /v1/check': 1.2, 'forward-auth': 0.85 };

/** A server and its load generator, with the methods that the harness calls on a contender. */
class LoadedServer {
  constructor(server, load) {
    this.name = server.name;
    this.server = server;
    this.load = load;
    this.plan = PLANS[server.name];
  }

  async connect() {
    this.port = await this.server.call(this.name === 'gRPC' ? 'grpcPort' : 'port');
  }

  /** Runs a part of a turn. The harness passes `share` as the number of operations. */
  async call(_, share) {
    const requests = Math.round(this.plan.requests * share);
    const { messages } = this.plan;
    const options =
      this.name === 'gRPC'
        ? { inFlight: CONNECTIONS, keys: KEYS }
        : { connections: CONNECTIONS, status: 200, messages };
    const before = await this.server.call('cpu');
    const cost = await this.load.call('run', this.port, options, requests);
    const cpu = (await this.server.call('cpu')) - before;
    return { ...cost, server: (1e3 * cpu) / requests };
  }
}

/** Returns the decisions per second relative to `peer`: the median over the rounds. */
const perPeer = (turns, name, peer, batch = 1) =>
  round(
    median(turns.get(peer).map(({ time }, turn) => (batch * time) / turns.get(name)[turn].time)),
  );

function judge(result, turns) {
  compare(result, turns, 'allowed', ['POST /v1/check', 'bare POST', OF_BARE['POST /v1/check']]);
  compare(result, turns, 'allowed', ['forward-auth', 'bare GET', OF_BARE['forward-auth']]);
  const batched = perPeer(turns, 'batch of 100', 'bare POST', BATCH);
  const called = perPeer(turns, 'gRPC', 'bare POST');
  result.ratios['batched decisions / bare POSTs'] = batched;
  result.ratios['gRPC calls / bare POSTs'] = called;
  result.bars.push(
    bar('batched decisions / bare POSTs', '>=', round(BATCHED_DECISIONS / BARE_POSTS), batched),
    bar('gRPC calls / bare POSTs', '>=', round(GRPC_CALLS / BARE_POSTS), called),
  );
}

export async function serviceBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  progress(`${ROUNDS} rounds, load average ${round(loadavg()[0])}`);
  await withContenders(LOAD, ['load'], {}, ([load]) =>
    withContenders(GRPC_LOAD, ['load'], {}, ([grpcLoad]) =>
      withContenders(SERVERS, Object.keys(PLANS), {}, async (servers) => {
        const lanes = servers.map(
          (server) => new LoadedServer(server, server.name === 'gRPC' ? grpcLoad : load),
        );
        for (const lane of lanes) await lane.connect();
        await takeTurns(lanes, WARM_UP_TURNS, 1);
        const turns = await takeTurns(lanes, ROUNDS, 1);
        result.rows.push(...loadRows(turns, 'allowed'));
        judge(result, turns);
      }),
    ),
  );
  return result;
}
