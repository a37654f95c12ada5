/**
 * Runs several processes that serve one port and share all limits (`--workers`). The supervisor
 * accepts connections, the workers serve them, and the store process holds the counters. With Redis
 * there is no store process.
 */
import { Supervisor, type WorkersOptions } from './supervisor.ts';

export type { ProcessGroup } from './process-group.ts';
export { Supervisor, type WorkersOptions } from './supervisor.ts';
export { runWorker } from './worker.ts';

/**
 * Starts `settings.workers` workers and supervises them. Resolves when all workers serve.
 *
 *     const service = await serveWithWorkers({ settings, log, config, load });
 *     process.on('SIGHUP', () => service.reload());
 *     process.once('SIGTERM', () => service.close().then(() => process.exit(0)));
 */
export const serveWithWorkers = (options: WorkersOptions): Promise<Supervisor> =>
  Supervisor.start(options);
