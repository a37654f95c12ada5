/**
 * Notifies listeners of released holds, also of those that other processes release. The Lua script
 * publishes each release on a channel; there is one channel per key prefix. The store subscribes
 * while it has listeners. A message is lost if the connection is lost, so listeners must not depend
 * on messages.
 */
import { scheduleInBackground } from '../../clock.ts';
import type { OnRelease } from '../../store.ts';
import type { KeyNames } from './keys.ts';
import type { OnReady } from './ready-signal.ts';

/**
 * Subscribes to a channel, and calls `onMessage` with each message. Returns a function that ends
 * the subscription.
 *
 *     const subscribe: Subscribe = (channel, onMessage) => {
 *       subscriber.subscribe(channel, onMessage);
 *       return () => subscriber.unsubscribe(channel, onMessage);
 *     };
 */
export type Subscribe = (channel: string, onMessage: (message: string) => void) => () => void;

/**
 * Opens one connection that subscribes to a channel. `lost` is called when the connection has ended
 * or was not established. Returns a function that closes the connection.
 */
export type OpenSubscriber = (
  channel: string,
  onMessage: (message: string) => void,
  lost: () => void,
) => () => void;

/** Delay before a lost connection is replaced. */
const RETRY_MS = 1000;
/** Delay after a new connection of the client. A Cluster client reports several in a row. */
const SETTLE_MS = 200;

/** Calls `work`, and ignores its errors: without a subscription, waiters poll. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/**
 * Returns a `Subscribe` that replaces a lost connection. It also replaces its connection when the
 * client connects again, because after a failover the old master may still accept subscriptions.
 */
export function autoResubscribe(open: OpenSubscriber, onReady: OnReady | undefined): Subscribe {
  return (channel, onMessage) => {
    let close: (() => void) | undefined;
    let cancel: (() => void) | undefined;
    /** Increased with each connection, so that events of earlier ones are ignored. */
    let generation = 0;
    const end = (): void => {
      generation++;
      cancel?.();
      if (close !== undefined) attempt(close);
      close = undefined;
    };
    const startIn = (delayMs: number): void => {
      cancel?.();
      cancel = scheduleInBackground(delayMs, start);
    };
    const start = (): void => {
      end();
      const own = generation;
      const lost = (): void => {
        if (own !== generation) return;
        end();
        startIn(RETRY_MS);
      };
      const opened = attempt(() => open(channel, onMessage, lost));
      if (opened === undefined) lost();
      else if (own === generation) close = opened;
      else attempt(opened);
    };
    const removeListener = onReady?.(() => startIn(SETTLE_MS));
    start();
    return () => {
      removeListener?.();
      end();
    };
  };
}

export class Releases {
  readonly #names: KeyNames;
  readonly #subscribe: Subscribe;
  readonly #listeners = new Set<Parameters<OnRelease>[0]>();
  #unsubscribe: (() => void) | undefined = undefined;

  constructor(names: KeyNames, subscribe: Subscribe) {
    this.#names = names;
    this.#subscribe = subscribe;
  }

  /** Adds a listener. Returns a function that removes it. */
  add(listener: Parameters<OnRelease>[0]): () => void {
    // A listener that is added twice is called twice.
    const own: typeof listener = (policy, key) => listener(policy, key);
    this.#listeners.add(own);
    this.#unsubscribe ??= attempt(() =>
      this.#subscribe(this.#names.channel, (message) => this.#emit(message)),
    );
    return () => {
      this.#listeners.delete(own);
      if (this.#listeners.size === 0) this.close();
    };
  }

  close(): void {
    this.#listeners.clear();
    const unsubscribe = this.#unsubscribe;
    this.#unsubscribe = undefined;
    if (unsubscribe !== undefined) attempt(unsubscribe);
  }

  #emit(message: string): void {
    const limit = this.#names.parseHolds(String(message));
    if (limit === undefined) return;
    for (const listener of this.#listeners) attempt(() => listener(limit.policy, limit.key));
  }
}
