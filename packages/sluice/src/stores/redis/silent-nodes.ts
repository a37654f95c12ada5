/**
 * For node-redis in a Cluster. It measures `socketTimeout` from the last write, so the probes of
 * many failure domains would keep the connection to a silent node open for ever.
 */
import { monotonicClock } from '../../clock.ts';

type Send = (args: readonly string[], key: string) => Promise<unknown>;

interface Pending {
  /** The number of commands without a reply. */
  count: number;
  /** When the last reply arrived, or the first of these commands was sent. */
  sinceMs: number;
}

/**
 * Returns a `send` that rejects at once while the node of a key has pending commands and has not
 * replied for longer than `silentMsOf(node)`. So the client's timeout can close the connection,
 * after which the client looks for the new master.
 */
export function sparingSilentNodes<Node extends object>(
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
