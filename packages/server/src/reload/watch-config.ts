/**
 * Reloads the configuration when its files change, and on every SIGHUP unless standard output is a
 * terminal. If the files are invalid, logs the problems and keeps the previous configuration.
 */
import { fingerprint } from '../config/files.ts';
import { problemText } from '../config/model.ts';
import type { ReloadOptions, ReloadReport } from '../configuration.ts';
import type { Logger } from '../observe/log.ts';
import { FileWatch } from './file-watch.ts';

/** The parts of `AppContext` that a reload needs. The supervisor provides them too. */
export interface Reloadable {
  readonly configuration: { reload(options?: ReloadOptions): Promise<ReloadReport> };
  readonly log: Logger;
}

export interface ConfigWatch {
  /** Reloads if the files have changed. Resolves to the report, or undefined if they have not. */
  check(): Promise<ReloadReport | undefined>;
  stop(): void;
}

export interface WatchOptions {
  /**
   * Fingerprint of the bytes from which the configuration was parsed. If the fingerprint of the
   * files differs, they have changed since. Default: the fingerprint of the current files.
   */
  readonly fingerprint?: string | undefined;
  /** Other files that a reload reads, such as certificates. Default: none. */
  readonly others?: readonly string[];
  /** Fingerprint of `others` before they were read. Default: the current fingerprint. */
  readonly othersFingerprint?: string | undefined;
}

/** Watches files and folders. Resolves when the watch has started. */
export async function watchConfig(
  parts: Reloadable,
  paths: readonly string[],
  options: WatchOptions = {},
): Promise<ConfigWatch> {
  const { others = [] } = options;
  const reloader = new Reloader(parts, paths, others);
  await reloader.begin(options);
  const files = new FileWatch([...paths, ...others], () => reloader.check());
  await files.start();
  const onHangup = (): void => void reloader.reload();
  // Closing a terminal also sends SIGHUP, which must then end the process.
  if (!process.stdout.isTTY) process.on('SIGHUP', onHangup);
  // Detect a change between the first load and the start of the watch: it has caused no event.
  await reloader.check();
  return {
    check: () => reloader.check(),
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
  /** Settles when the last check or reload is complete. The next one waits for it. */
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
  check(): Promise<ReloadReport | undefined> {
    return this.#inTurn(async () => {
      const found = await this.#fingerprints();
      const isKnown = found.every((each, at) => each === this.#known[at]);
      if (isKnown || this.#isStopped) return undefined;
      // `POST /v1/reload` may have loaded the same change already.
      const report = await this.#reload(found, { ifChanged: found[1] === this.#known[1] });
      return report.isUnchanged ? undefined : report;
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

  /** Reloads, and stores the fingerprint of the parsed bytes for the next check. */
  async #reload(
    [found, others]: readonly string[],
    options?: ReloadOptions,
  ): Promise<ReloadReport> {
    const { configuration, log } = this.#parts;
    const report = await configuration.reload(options);
    this.#known = [report.fingerprint ?? found, others];
    if (report.isUnchanged) return report;
    if (report.ok) log.info('config reloaded');
    else log.error({ problems: report.problems.map(problemText) }, 'config rejected');
    return report;
  }
}
