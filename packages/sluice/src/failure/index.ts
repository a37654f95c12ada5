/** `sluice/failure`: what happens when a store does not answer. */
export type { BreakerState } from './breaker.ts';
export { type FailureOptions, type GuardedStore, withFailurePolicy } from './guarded-store.ts';
