/**
 * Rejects commands to nodes that do not reply, for node-redis in a Cluster. node-redis measures
 * `socketTimeout` from the last write. Without this module, the probes of many failure domains are
 * written so often that a connection to such a node is never closed.
 */
import { monotonicClock } from '../../clock.ts';

type Send = (args: readonly string[], key: string) => Promise<unknown>;

/** The commands to a node that have no reply yet. */
interface PendingCommands {
  count: number;
  /** When the last reply arrived or, if that is later, when the first command was sent. */
  sinceMs: number;
}

/**
 * Returns a function like `send`. It rejects at once while the node of a key has pending commands
 * and has not replied for longer than `silentMsOf(node)`. Then no command is written, so that the
 * client's timeout closes the connection and the client connects to the new master.
 */
export function withSilenceCheck<Node extends object>(
  send: Send,
  nodeOf: (key: string) => Node | undefined,
  silentMsOf: (node: Node) => number,
): Send {
  const pendings = new WeakMap<object, PendingCommands>();
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
