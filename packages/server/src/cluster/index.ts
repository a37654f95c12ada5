/** Several processes that serve one port, with the same limits: `--workers`. */
import { Supervisor, type WorkersOptions } from './supervisor.ts';

export type { ProcessGroup } from './process-group.ts';
export { Supervisor, type WorkersOptions } from './supervisor.ts';
export { runWorker } from './worker.ts';

/**
 * Starts as many workers as the settings say, and looks after them. Resolves when all serve.
 *
 *     const service = await serveWithWorkers({ settings, log, config, load });
 *     process.on('SIGHUP', () => service.reload());
 *     process.once('SIGTERM', () => service.close().then(() => process.exit(0)));
 */
export const serveWithWorkers = (options: WorkersOptions): Promise<Supervisor> =>
  Supervisor.start(options);
