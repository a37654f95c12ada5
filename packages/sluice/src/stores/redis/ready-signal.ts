/** Listens to the events of a Redis client about new connections. */

type Emitter = Record<'on' | 'removeListener', (event: string, listener: () => void) => void>;

/** Adds a listener. Returns a function that removes it. */
export type OnReady = (listener: () => void) => () => void;

/**
 * Adds one listener per event for all stores of a client, because EventEmitter warns if an event
 * has more than ten listeners.
 */
class ReadySignal {
  readonly #client: Emitter;
  readonly #events: readonly string[];
  readonly #listeners = new Set<() => void>();
  readonly #emit = (): void => {
    for (const listener of this.#listeners) listener();
  };

  constructor(client: Emitter, events: readonly string[]) {
    this.#client = client;
    this.#events = events;
  }

  add(listener: () => void): () => void {
    if (this.#listeners.size === 0) {
      for (const event of this.#events) this.#client.on(event, this.#emit);
    }
    this.#listeners.add(listener);
    return () => this.#remove(listener);
  }

  #remove(listener: () => void): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
    for (const event of this.#events) this.#client.removeListener(event, this.#emit);
  }
}

const signals = new WeakMap<object, ReadySignal>();

/** Returns a function that adds a listener, or undefined if the client is no event emitter. */
export function onReadyOf(client: object, ...events: readonly string[]): OnReady | undefined {
  const emitter = client as Emitter;
  if (typeof emitter.on !== 'function' || typeof emitter.removeListener !== 'function') {
    return undefined;
  }
  return (listener) => {
    const signal = signals.get(client) ?? new ReadySignal(emitter, events);
    signals.set(client, signal);
    return signal.add(listener);
  };
}
