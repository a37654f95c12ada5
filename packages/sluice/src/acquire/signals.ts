import { LinkedList, ShardedMap } from './key-queue.ts';

/** One list of waiters per abort signal. All waiters of a signal share one event listener. */
export class SignalLists<T> {
  readonly #lists = new ShardedMap<AbortSignal, LinkedList<T>>();
  readonly #rejectAll: (list: LinkedList<T>, reason: unknown) => void;

  constructor(rejectAll: (list: LinkedList<T>, reason: unknown) => void) {
    this.#rejectAll = rejectAll;
  }

  /** Returns the list of a signal. The listener is removed when the list becomes empty. */
  listOf(signal: AbortSignal): LinkedList<T> {
    const known = this.#lists.get(signal);
    if (known) return known;
    const list = new LinkedList<T>(() => {
      signal.removeEventListener('abort', rejectAll);
      this.#lists.delete(signal);
    });
    const rejectAll = (): void => this.#rejectAll(list, signal.reason);
    signal.addEventListener('abort', rejectAll);
    return this.#lists.add(signal, list);
  }
}
