/** Asynchronous forms of store methods that may exist only in synchronous form. */
import { systemClock } from '../clock.ts';
import type { Store, SyncStore } from '../store.ts';

export type Once = NonNullable<Store['adjustOnce']>;

/** Returns the `adjustOnce` of a store, or undefined if the store has neither form. */
export function onceOf(store: Store): Once | undefined {
  if (store.adjustOnce !== undefined) return store.adjustOnce.bind(store);
  const sync = store as SyncStore;
  if (sync.adjustOnceSync === undefined) return undefined;
  return async (id, adjustments, nowMs = systemClock.now(), _onSent, client) =>
    sync.adjustOnceSync!(id, adjustments, nowMs, client);
}

/** Returns the `inspect` of a store, or undefined if the store has neither form. */
export function inspectOf(store: Store): Store['inspect'] {
  if (store.inspect !== undefined) return store.inspect.bind(store);
  const sync = store as SyncStore;
  if (sync.inspectSync === undefined) return undefined;
  return async (policy, params, key, nowMs = systemClock.now()) =>
    sync.inspectSync(policy, params, key, nowMs);
}
