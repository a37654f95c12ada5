/**
 * The contenders under load. Some other limiters also run with auto-pipelining, a client setting
 * that sends the commands of one turn of the event loop together.
 */
import { connect, expressStore, flexible, sluice, sortedSetLog } from './clients.mjs';
import { underLoad } from './load.mjs';

const PIPELINED = { enableAutoPipelining: true };

const isAllowed = (decision) => decision.allowed;

/** Connects as many clients as the load has. */
const connectAll = ({ port, clients = 1 }, settings) =>
  Promise.all(Array.from({ length: clients }, () => connect(port, settings)));

async function ours(algorithm, options, storeOptions) {
  const clients = await connectAll(options);
  const { limit, windowMs } = options;
  const policies = { perWindow: { algorithm, limit, window: windowMs } };
  const calls = clients.map((client) => sluice(client, policies, storeOptions));
  return underLoad(clients[0], calls, isAllowed, options);
}

async function flexibleOn(options, settings) {
  const clients = await connectAll(options, settings);
  const calls = clients.map((client) => flexible(client, options));
  // rate-limiter-flexible rejects the promise of a denial, so a resolved promise is an admission.
  return underLoad(clients[0], calls, () => true, options);
}

async function bareIncr(client, options) {
  const call = (key) => client.incr(`count:${key}`);
  return underLoad(client, call, (count) => count <= options.limit, options, ['incr']);
}

export const contenders = {
  'sluice sliding-counter': (options) => ours('sliding-counter', options),

  'sluice sliding-log': (options) => ours('sliding-log', options),

  'sluice sliding-log, deny cache': (options) =>
    ours('sliding-log', options, { prefix: 'cached:', denyCache: {} }),

  'sluice token-bucket': (options) => ours('token-bucket', options),

  'rate-limiter-flexible': (options) => flexibleOn(options),

  'rate-limiter-flexible, auto-pipelining': (options) => flexibleOn(options, PIPELINED),

  'rate-limit-redis': async (options) => {
    const client = await connect(options.port);
    const call = await expressStore(client, options);
    return underLoad(client, call, ({ totalHits }) => totalHits <= options.limit, options);
  },

  'sorted-set log': async (options) => {
    const client = await connect(options.port);
    return underLoad(client, sortedSetLog(client, options), ([fits]) => fits === 1, options);
  },

  /** Counts calls without a limit: the minimum work of a limiter on Redis. */
  'bare INCR': async (options) => bareIncr(await connect(options.port), options),

  'bare INCR, auto-pipelining': async (options) =>
    bareIncr(await connect(options.port, PIPELINED), options),
};
