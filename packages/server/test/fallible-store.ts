/** Stores that fail on demand. */

import type { FailureAction } from 'sluice';
import { memoryStore, type Store } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import type { OpenStore } from '../src/stores/index.ts';

/** A store that is unavailable while `state` is set. */
export function fallibleStore(): { readonly store: Store; readonly state: { isAway: boolean } } {
  const state = { isAway: false };
  const inner = memoryStore();
  const store = withFailurePolicy({
    decide: async (checks) => {
      if (state.isAway) throw new Error('gone');
      return inner.decide(checks);
    },
    adjust: (adjustments) => inner.adjust(adjustments),
    adjustOnce: (id, adjustments) => inner.adjustOnce!(id, adjustments),
    reset: (...key) => inner.reset(...key),
    close: () => inner.close(),
  });
  return { store, state };
}

/** A store as the service opens one. */
export const opened = (store: Store): OpenStore => ({
  store,
  kind: 'redis',
  close: async () => {},
});

/** A store that is always unavailable. */
export function awayStore(onFailure: FailureAction): OpenStore {
  const gone = () => Promise.reject(new Error('gone'));
  const store: Store = {
    ...{ decide: gone, adjust: gone, adjustOnce: gone, reset: gone },
    close: async () => {},
  };
  return opened(withFailurePolicy(store, { onFailure }));
}
