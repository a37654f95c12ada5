/**
 * Connections of known clients for subscriptions. A client that subscribes cannot send other
 * commands, so each subscription has its own connection, with the options of the client. It does
 * not keep the process alive. In a Cluster it is a connection to any node, because messages are
 * sent to all nodes.
 */
import type { OpenSubscriber } from './releases.ts';

type Listener = (...args: unknown[]) => void;

/** A connection of ioredis or iovalkey. */
interface IoredisNode {
  duplicate(options: object): IoredisNode;
  connect(): Promise<unknown>;
  subscribe(channel: string): Promise<unknown>;
  disconnect(): void;
  on(event: string, listener: Listener): unknown;
  readonly stream?: { unref?(): void };
}

/** A connection of node-redis. */
interface NodeRedisNode {
  duplicate(options: object): NodeRedisNode;
  connect(): Promise<unknown>;
  subscribe(channel: string, listener: Listener): Promise<unknown>;
  destroy(): void;
  unref(): void;
  on(event: string, listener: Listener): unknown;
  readonly options?: { readonly socket?: object };
}

const anyOf = <T>(nodes: readonly T[]): T => nodes[Math.floor(Math.random() * nodes.length)];

/** `nodesOf` returns the connections of the client to its nodes. Some of them may be lost. */
export const ioredisSubscriber =
  (nodesOf: () => readonly unknown[]): OpenSubscriber =>
  (channel, onMessage, lost) => {
    // Disables reconnecting, because its timer would keep the process alive. `autoResubscribe`
    // opens a new connection instead.
    const noRetry = (): null => null;
    const node = (anyOf(nodesOf()) as IoredisNode).duplicate({
      ...{ lazyConnect: true, enableOfflineQueue: true, autoResubscribe: false, keyPrefix: '' },
      ...{ retryStrategy: noRetry, sentinelRetryStrategy: noRetry, failoverDetector: false },
    });
    node.on('error', () => {});
    node.on('connect', () => node.stream?.unref?.());
    node.on('message', (_channel, message) => onMessage(message as string));
    node.on('end', lost);
    node
      .connect()
      .then(() => node.subscribe(channel))
      .catch(() => {
        node.disconnect();
        lost();
      });
    return () => node.disconnect();
  };

export const nodeRedisSubscriber =
  (nodesOf: () => readonly unknown[]): OpenSubscriber =>
  (channel, onMessage, lost) => {
    const source = anyOf(nodesOf()) as NodeRedisNode;
    // A socket timeout would close a connection on which nothing is published.
    const socket = {
      ...source.options?.socket,
      reconnectStrategy: false,
      socketTimeout: undefined,
    };
    const node = source.duplicate({ socket, pingInterval: undefined });
    node.on('error', lost);
    node.on('end', lost);
    node.unref();
    node
      .connect()
      .then(() => node.subscribe(channel, (message) => onMessage(message as string)))
      .catch(lost);
    return () => node.destroy();
  };

/** node-redis with Sentinel subscribes on a connection of its own, which it replaces itself. */
interface NodeRedisSentinel {
  subscribe(channel: string, listener: Listener): Promise<unknown>;
  unsubscribe(channel: string, listener: Listener): Promise<unknown>;
}

export const sentinelSubscriber =
  (client: unknown): OpenSubscriber =>
  (channel, onMessage, lost) => {
    const sentinel = client as NodeRedisSentinel;
    const listener: Listener = (message) => onMessage(message as string);
    sentinel.subscribe(channel, listener).catch(lost);
    return () => void sentinel.unsubscribe(channel, listener).catch(() => {});
  };
