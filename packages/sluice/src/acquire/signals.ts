import { LinkedList, ShardedMap } from './key-queue.ts';

/** The waiters of each signal. One listener serves all waiters of a signal. */
export class SignalLists<T> {
  readonly #lists = new ShardedMap<AbortSignal, LinkedList<T>>();
  readonly #rejectAll: (list: LinkedList<T>, reason: unknown) => void;

  constructor(rejectAll: (list: LinkedList<T>, reason: unknown) => void) {
    this.#rejectAll = rejectAll;
  }

  /** Returns the list of a signal. Its listener is removed when the list becomes empty. */
  of(signal: AbortSignal): LinkedList<T> {
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
