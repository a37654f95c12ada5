/**
 * For node-redis in a Cluster, which measures `socketTimeout` from the last write: the probes of
 * many failure domains would keep the connection to a silent node open for ever.
 */
import { monotonicClock } from '../../clock.ts';

type Send = (args: readonly string[], key: string) => Promise<unknown>;

interface Debt {
  /** How many commands have no reply yet. */
  count: number;
  /** When the last reply came, or the first of these commands was sent. */
  sinceMs: number;
}

/**
 * Returns a `send` that rejects at once while the node of a key has sent no reply for `silentMs`
 * although commands wait for one. So the client's timeout ends the connection, and with it the
 * silence: the client looks for the new master.
 */
export function sparingSilentNodes(
  send: Send,
  nodeOf: (key: string) => object | undefined,
  silentMs: number,
): Send {
  const debts = new WeakMap<object, Debt>();
  return (args, key) => {
    const node = nodeOf(key);
    if (node === undefined) return send(args, key);
    const nowMs = monotonicClock.now();
    const debt = debts.get(node) ?? { count: 0, sinceMs: nowMs };
    debts.set(node, debt);
    if (debt.count === 0) debt.sinceMs = nowMs;
    else if (nowMs - debt.sinceMs > silentMs) {
      return Promise.reject(new Error(`The node has not replied for ${silentMs} ms`));
    }
    debt.count++;
    return send(args, key).finally(() => {
      debt.count--;
      debt.sinceMs = monotonicClock.now();
    });
  };
}
