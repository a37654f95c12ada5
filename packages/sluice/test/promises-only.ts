/** The memory store without its synchronous methods, as an example of an asynchronous store. */
import { memoryStore, type Store } from '../src/index.ts';

export function promisesOnly(store = memoryStore()): Store {
  return {
    features: store.features,
    decide: (checks, nowMs) => store.decide(checks, nowMs),
    adjust: (adjustments, nowMs) => store.adjust(adjustments, nowMs),
    reset: (policy, key, nowMs) => store.reset(policy, key, nowMs),
    block: async (policy, key, forMs, nowMs) => store.block!(policy, key, forMs, nowMs),
    inspect: async (policy, params, key, nowMs) =>
      store.inspectSync(policy, params, key, nowMs ?? 0),
    get size() {
      return store.size;
    },
    close: () => store.close(),
  };
}
