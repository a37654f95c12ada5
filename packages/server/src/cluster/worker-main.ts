/** The program of a worker process. The supervisor starts it. */
import { runWorker } from './worker.ts';

runWorker();
