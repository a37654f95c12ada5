/** The rate limiter as a separate build entry, so that tests can run it in the browser. */
export { createLimiter, definePolicy, ManualClock, memoryStore, SluiceError } from 'sluice';
