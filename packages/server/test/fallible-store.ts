/** Stores that fail on demand. */

import type { FailureAction } from 'sluice';
import { memoryStore, type Store } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import type { OpenStore } from '../src/stores/index.ts';

/** Returns a store that fails while `state.isUnavailable` is set. */
export function fallibleStore(): {
  readonly store: Store;
  readonly state: { isUnavailable: boolean };
} {
  const state = { isUnavailable: false };
  const inner = memoryStore();
  const store = withFailurePolicy({
    decide: async (checks) => {
      if (state.isUnavailable) throw new Error('unavailable');
      return inner.decide(checks);
    },
    adjust: (adjustments) => inner.adjust(adjustments),
    adjustOnce: (id, adjustments) => inner.adjustOnce!(id, adjustments),
    reset: (...key) => inner.reset(...key),
    close: () => inner.close(),
  });
  return { store, state };
}

/** Wraps a store in the form that `openStore` returns. */
export const opened = (store: Store): OpenStore => ({
  store,
  kind: 'redis',
  close: async () => {},
});

/** Returns a store that is always unavailable. */
export function unavailableStore(onFailure: FailureAction): OpenStore {
  const fail = () => Promise.reject(new Error('unavailable'));
  const store: Store = {
    ...{ decide: fail, adjust: fail, adjustOnce: fail, reset: fail },
    close: async () => {},
  };
  return opened(withFailurePolicy(store, { onFailure }));
}
