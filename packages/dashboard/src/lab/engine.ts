/** The library's engine as a separate entry, so that tests can run the vectors against it. */
export { createLimiter, definePolicy, ManualClock, memoryStore, SluiceError } from 'sluice';
