/**
 * Reads the configuration again when its files have changed, or when told to by SIGHUP. Files that
 * are as they were count as no reload, and files that are wrong are named and change nothing.
 */
import { problemText } from '../config/model.ts';
import type { ReloadReport } from '../configuration.ts';
import type { Logger } from '../observe/log.ts';
import { FileWatch } from './file-watch.ts';
import { fingerprint } from './fingerprint.ts';

/** `Parts` has these, and so has whoever reads files for others. */
export interface Reloadable {
  readonly configuration: { reload(): Promise<ReloadReport> };
  readonly log: Logger;
}

export interface ConfigWatch {
  /** Looks at the files now; answers what came of it, or undefined if they are as they were. */
  look(): Promise<ReloadReport | undefined>;
  stop(): void;
}

/** `paths` are files and folders, as they were given. */
export async function watchConfig(
  parts: Reloadable,
  paths: readonly string[],
): Promise<ConfigWatch> {
  const reloader = new Reloader(parts, paths);
  await reloader.begin();
  const files = new FileWatch(paths, () => reloader.look());
  await files.start();
  const onHangup = async (): Promise<void> => {
    const report = await reloader.look();
    if (report === undefined) parts.log.info('the configuration files are as they were');
  };
  process.on('SIGHUP', onHangup);
  return {
    look: () => reloader.look(),
    stop: () => {
      process.off('SIGHUP', onHangup);
      files.stop();
    },
  };
}

class Reloader {
  readonly #parts: Reloadable;
  readonly #paths: readonly string[];
  #known = '';
  /** Looks take turns, so that none misses what another is just reading. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: Reloadable, paths: readonly string[]) {
    this.#parts = parts;
    this.#paths = paths;
  }

  async begin(): Promise<void> {
    this.#known = await fingerprint(this.#paths);
  }

  look(): Promise<ReloadReport | undefined> {
    const next = this.#last.then(() => this.#look());
    this.#last = next.catch(() => {});
    return next;
  }

  async #look(): Promise<ReloadReport | undefined> {
    const found = await fingerprint(this.#paths);
    if (found === this.#known) return undefined;
    this.#known = found;
    const { configuration, log } = this.#parts;
    const report = await configuration.reload();
    if (report.ok) log.info('read the configuration again');
    else log.error({ problems: report.problems.map(problemText) }, 'kept the old configuration');
    return report;
  }
}
