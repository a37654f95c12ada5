/**
 * Tells when files may have changed. The folders that they lie in are watched, not the files: an
 * editor puts a new file in the old one's place, and Kubernetes swaps a link (`..data`) above them.
 * Where the system tells nothing, as on some network disks, a look now and then has to do.
 */
import { type FSWatcher, watch } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { systemClock } from 'sluice';
import { withTimeout } from '../with-timeout.ts';

/** A file is mostly written in several steps; so long after the last one it is looked at. */
const SETTLE_MS = 100;
/** But not put off for longer than this. */
const MAX_SETTLE_MS = 1000;
const LOOK_MS = 5000;
/** How long a file system may take to tell where folders are; then files are looked at without. */
const FOLDERS_MS = 10_000;

export class FileWatch {
  readonly #paths: readonly string[];
  readonly #look: () => Promise<unknown>;
  readonly #watchers = new Map<string, FSWatcher>();
  #names = new Set<string>();
  #cancelSettle: (() => void) | undefined = undefined;
  #cancelLook: () => void = () => {};
  #firstEventMs = 0;
  /** Set until the file system has responded, so that only one request waits for it. */
  #watching: Promise<void> | undefined = undefined;
  #isStopped = false;

  /** `look` is called after events, and now and then. */
  constructor(paths: readonly string[], look: () => Promise<unknown>) {
    this.#paths = paths;
    this.#look = look;
  }

  /** Resolves when changes are noticed. */
  async start(): Promise<void> {
    await this.#watch();
    this.#lookLater();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelSettle?.();
    this.#cancelLook();
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #lookLater(): void {
    if (!this.#isStopped) this.#cancelLook = systemClock.schedule(LOOK_MS, () => this.#lookNow());
  }

  async #lookNow(): Promise<void> {
    this.#cancelSettle?.();
    this.#cancelSettle = undefined;
    this.#cancelLook();
    // Folders come and go as well, such as those that a link leads to.
    await this.#watch();
    await this.#look();
    this.#cancelLook();
    this.#lookLater();
  }

  #changed(name: string | null): void {
    if (this.#isStopped || !this.#isOurs(name)) return;
    const nowMs = systemClock.now();
    if (this.#cancelSettle === undefined) this.#firstEventMs = nowMs;
    const waitedMs = nowMs - this.#firstEventMs;
    if (this.#cancelSettle !== undefined && waitedMs >= MAX_SETTLE_MS - SETTLE_MS) return;
    this.#cancelSettle?.();
    this.#cancelSettle = systemClock.schedule(SETTLE_MS, () => this.#lookNow());
  }

  #isOurs(name: string | null): boolean {
    return name === null || name.startsWith('..') || this.#names.has(name) || /ya?ml$/.test(name);
  }

  async #watch(): Promise<void> {
    this.#watching ??= this.#watchFolders().finally(() => {
      this.#watching = undefined;
    });
    await withTimeout(FOLDERS_MS, this.#watching);
  }

  async #watchFolders(): Promise<void> {
    const folders = new Set<string>();
    const names = new Set<string>();
    for (const path of this.#paths) {
      const given = resolve(path);
      for (const each of new Set([given, await realpath(given).catch(() => given)])) {
        folders.add(dirname(each));
        names.add(basename(each));
        if (await isFolder(each)) folders.add(each);
      }
    }
    this.#names = names;
    if (this.#isStopped) return;
    for (const [folder, watcher] of this.#watchers)
      if (!folders.has(folder)) this.#drop(folder, watcher);
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#add(folder);
  }

  #add(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, (_, name) => this.#changed(name));
      // A folder that is gone is looked for again with the next look.
      watcher.on('error', () => this.#drop(folder, watcher));
      this.#watchers.set(folder, watcher);
    } catch {
      // It is not there, or the system watches no more folders: the look now and then goes on.
    }
  }

  #drop(folder: string, watcher: FSWatcher): void {
    watcher.close();
    if (this.#watchers.get(folder) === watcher) this.#watchers.delete(folder);
  }
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() === true;
