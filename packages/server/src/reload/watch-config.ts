/**
 * Reads the configuration again when its files have changed, and on every SIGHUP unless standard
 * output is a terminal. Files that are wrong are named and change nothing.
 */
import { fingerprint } from '../config/files.ts';
import { problemText } from '../config/model.ts';
import type { ReloadReport } from '../configuration.ts';
import type { Logger } from '../observe/log.ts';
import { FileWatch } from './file-watch.ts';

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

export interface WatchOptions {
  /**
   * The fingerprint of the bytes that the configuration was parsed from. A file that has changed
   * since then is noticed at once. Default: as the files are now.
   */
  readonly fingerprint?: string | undefined;
  /** Other files that take effect with a reload, such as certificates. Default: none. */
  readonly others?: readonly string[];
  /** The fingerprint of the others before they were read. Default: as they are now. */
  readonly othersFingerprint?: string | undefined;
}

/** `paths` are files and folders, as they were given. */
export async function watchConfig(
  parts: Reloadable,
  paths: readonly string[],
  options: WatchOptions = {},
): Promise<ConfigWatch> {
  const { others = [] } = options;
  const reloader = new Reloader(parts, paths, others);
  await reloader.begin(options);
  const files = new FileWatch([...paths, ...others], () => reloader.look());
  await files.start();
  const onHangup = (): void => void reloader.reload();
  // A terminal that is closed sends the signal too: there it ends the process, as by default.
  if (!process.stdout.isTTY) process.on('SIGHUP', onHangup);
  // A change between the first load and the start of the watch has no event.
  await reloader.look();
  return {
    look: () => reloader.look(),
    stop: () => {
      process.off('SIGHUP', onHangup);
      reloader.stop();
      files.stop();
    },
  };
}

class Reloader {
  readonly #parts: Reloadable;
  readonly #paths: readonly string[];
  readonly #others: readonly string[];
  #known: readonly string[] = [];
  #isStopped = false;
  /** Looks take turns, so that none misses what another is just reading. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: Reloadable, paths: readonly string[], others: readonly string[]) {
    this.#parts = parts;
    this.#paths = paths;
    this.#others = others;
  }

  async begin({ fingerprint, othersFingerprint }: WatchOptions): Promise<void> {
    const [now, othersNow] = await this.#fingerprints();
    this.#known = [fingerprint ?? now, othersFingerprint ?? othersNow];
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Reloads if the files have changed. */
  look(): Promise<ReloadReport | undefined> {
    return this.#inTurn(async () => {
      const found = await this.#fingerprints();
      const isKnown = found.every((each, at) => each === this.#known[at]);
      return isKnown || this.#isStopped ? undefined : this.#reload(found);
    });
  }

  /** Reloads, whether or not the files have changed. */
  reload(): Promise<ReloadReport> {
    return this.#inTurn(async () => this.#reload(await this.#fingerprints()));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => {});
    return next;
  }

  async #fingerprints(): Promise<readonly string[]> {
    return [await fingerprint(this.#paths), await fingerprint(this.#others)];
  }

  /**
   * A change while the files are parsed differs from what is known then, so the next look finds it.
   */
  async #reload([found, others]: readonly string[]): Promise<ReloadReport> {
    const { configuration, log } = this.#parts;
    const report = await configuration.reload();
    this.#known = [report.fingerprint ?? found, others];
    if (report.ok) log.info('read the configuration again');
    else log.error({ problems: report.problems.map(problemText) }, 'kept the old configuration');
    return report;
  }
}
