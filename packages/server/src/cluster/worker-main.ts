/** The program of a worker; the supervisor starts it. */
import { runWorker } from './worker.ts';

runWorker();
