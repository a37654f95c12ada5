/**
 * Logs evictions of unexpired keys by the embedded store. The first eviction is logged within a
 * second. Further evictions are logged at most once a minute, with their number.
 */
import { type Clock, type Store, systemClock } from 'sluice';
import type { Logger } from './log.ts';

const POLL_MS = 1000;
export const PAUSE_MS = 60_000;

type EvictingStore = Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'>;

export class EvictionLog {
  readonly #log: Logger;
  readonly #store: EvictingStore;
  readonly #clock: Clock;
  #logged = 0;
  /** Number of polls until another line may be logged. */
  #pause = 0;
  #cancel: (() => void) | undefined = undefined;

  constructor(log: Logger, store: EvictingStore, clock: Clock = systemClock) {
    this.#log = log;
    this.#store = store;
    this.#clock = clock;
  }

  /** Starts to poll once a second. Does nothing for a store that does not count evictions. */
  start(): void {
    if (this.#store.evicted === undefined) return;
    this.#cancel = this.#clock.schedule(POLL_MS, () => {
      this.#poll();
      this.start();
    });
  }

  #poll(): void {
    if (this.#pause > 0) this.#pause--;
    else if (this.#write()) this.#pause = PAUSE_MS / POLL_MS - 1;
  }

  #write(): boolean {
    const { evicted: total = 0, size: keys, guaranteedKeys } = this.#store;
    const evicted = total - this.#logged;
    if (evicted <= 0) return false;
    this.#logged = total;
    this.#log.warn({ evicted, total, keys, guaranteedKeys }, 'keys evicted');
    return true;
  }

  /** Stops, and logs evictions since the last line. */
  stop(): void {
    if (this.#cancel === undefined) return;
    this.#cancel();
    this.#cancel = undefined;
    this.#write();
  }
}
