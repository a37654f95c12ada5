/** The limiters of the lease benchmark. Each process has one, and all processes share one key. */
import { connect, flexible, sluice } from '../redis/clients.mjs';
import { atFullSpeed, atRate } from './load.mjs';

const KEY = 'tenant:1';
/** How often the local batcher adds its count. */
const FLUSH_MS = 10;

/** Returns the methods of a contender. `call` resolves to a decision. */
const underLoad = (call) => ({
  atFullSpeed: (load) => atFullSpeed(call, load),
  atRate: (load) => atRate(call, load),
});

async function ours({ port, limit, windowMs }, lease, storeOptions) {
  const client = await connect(port);
  const policies = { hot: { limit, window: windowMs, lease } };
  const check = sluice(client, policies, storeOptions);
  return underLoad(() => check(KEY));
}

export const contenders = {
  'sluice, leased': (options) =>
    ours(options, true, { leases: {}, denyCache: {}, prefix: 'l:', onFailure: 'deny' }),

  'sluice, unleased': (options) => ours(options, false, { prefix: 'u:' }),

  'sluice, unleased, deny cache': (options) =>
    ours(options, false, { denyCache: {}, prefix: 'c:' }),

  'rate-limiter-flexible': async (options) => {
    const consume = flexible(await connect(options.port), options);
    return underLoad(async () => {
      try {
        await consume(KEY);
        return { allowed: true };
      } catch (denial) {
        if (denial instanceof Error) throw denial;
        return { allowed: false };
      }
    });
  },

  /**
   * Admits calls by the last known count of a fixed window, and adds its own count to Redis every
   * 10 ms. Meanwhile, the processes do not see each other's calls.
   */
  'local batcher': async ({ port, limit, windowMs }) => {
    const client = await connect(port);
    let [window, known, unsent] = [0, 0, 0];
    const flush = async () => {
      if (unsent === 0) return;
      const [added, flushed] = [unsent, window];
      [known, unsent] = [known + unsent, 0];
      const count = await client.incrby(`batched:${flushed}`, added);
      if (count === added) void client.pexpire(`batched:${flushed}`, 2 * windowMs);
      if (flushed === window) known = Math.max(known, count);
    };
    setInterval(flush, FLUSH_MS);
    return underLoad(async () => {
      const current = Math.floor(Date.now() / windowMs);
      if (current !== window) [window, known, unsent] = [current, 0, 0];
      const allowed = known + unsent < limit;
      if (allowed) unsent++;
      return { allowed };
    });
  },
};
