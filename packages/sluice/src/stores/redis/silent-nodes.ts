/**
 * Rejects commands to nodes that do not reply, for node-redis in a Cluster. node-redis measures
 * `socketTimeout` from the last write, so without this the probes of many failure domains would
 * keep the connection to a silent node open forever.
 */
import { monotonicClock } from '../../clock.ts';

type Send = (args: readonly string[], key: string) => Promise<unknown>;

/** The commands to a node that have no reply yet. */
interface Pending {
  count: number;
  /** When the last reply arrived, or the first of the commands was sent if that is later. */
  sinceMs: number;
}

/**
 * Returns a `send` that rejects at once while the node of a key has pending commands and has not
 * replied for longer than `silentMsOf(node)`. So the client's timeout can close the connection, and
 * the client then connects to the new master.
 */
export function rejectingSilentNodes<Node extends object>(
  send: Send,
  nodeOf: (key: string) => Node | undefined,
  silentMsOf: (node: Node) => number,
): Send {
  const pendings = new WeakMap<object, Pending>();
  return (args, key) => {
    const node = nodeOf(key);
    if (node === undefined) return send(args, key);
    const nowMs = monotonicClock.now();
    const pending = pendings.get(node) ?? { count: 0, sinceMs: nowMs };
    pendings.set(node, pending);
    if (pending.count === 0) pending.sinceMs = nowMs;
    else if (nowMs - pending.sinceMs > silentMsOf(node)) {
      return Promise.reject(new Error(`The node has not replied for ${silentMsOf(node)} ms`));
    }
    pending.count++;
    return send(args, key).finally(() => {
      pending.count--;
      pending.sinceMs = monotonicClock.now();
    });
  };
}
