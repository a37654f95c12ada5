/** The engine that decides here: the very module that services import, in a file of its own. */
export { createLimiter, definePolicy, ManualClock, memoryStore, SluiceError } from 'sluice';
