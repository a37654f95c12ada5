/**
 * Calls a function when files may have changed. Watches the folders instead of the files, because
 * editors replace files, and Kubernetes replaces a link (`..data`) above them. Also calls the
 * function every 5 s, because some network file systems send no events.
 */
import { type FSWatcher, watch } from 'node:fs';
import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { systemClock } from 'sluice';
import { withTimeout } from '../with-timeout.ts';

/** Delay after the last event, because a file is usually written in several steps. */
const SETTLE_MS = 100;
/** Maximum delay after the first event. */
const MAX_SETTLE_MS = 1000;
const POLL_MS = 5000;
/** Timeout for resolving folders on a file system that hangs. */
const FOLDERS_MS = 10_000;

export class FileWatch {
  readonly #paths: readonly string[];
  readonly #check: () => Promise<unknown>;
  readonly #watchers = new Map<string, FSWatcher>();
  #names = new Set<string>();
  #cancelSettle: (() => void) | undefined = undefined;
  #cancelPoll: () => void = () => {};
  #firstEventMs = 0;
  /** The pending resolution of folders. At most one runs at a time. */
  #watching: Promise<void> | undefined = undefined;
  #isStopped = false;

  /** `check` is called after events and every 5 s. */
  constructor(paths: readonly string[], check: () => Promise<unknown>) {
    this.#paths = paths;
    this.#check = check;
  }

  /** Resolves when the folders are watched. */
  async start(): Promise<void> {
    await this.#watch();
    this.#schedulePoll();
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelSettle?.();
    this.#cancelPoll();
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #schedulePoll(): void {
    if (!this.#isStopped) this.#cancelPoll = systemClock.schedule(POLL_MS, () => this.#poll());
  }

  async #poll(): Promise<void> {
    this.#cancelSettle?.();
    this.#cancelSettle = undefined;
    this.#cancelPoll();
    // Resolves the folders again, because the target of a link may have changed.
    await this.#watch();
    await this.#check();
    this.#cancelPoll();
    this.#schedulePoll();
  }

  #onEvent(name: string | null): void {
    if (this.#isStopped || !this.#isOurs(name)) return;
    const nowMs = systemClock.now();
    if (this.#cancelSettle === undefined) this.#firstEventMs = nowMs;
    const waitedMs = nowMs - this.#firstEventMs;
    if (this.#cancelSettle !== undefined && waitedMs >= MAX_SETTLE_MS - SETTLE_MS) return;
    this.#cancelSettle?.();
    this.#cancelSettle = systemClock.schedule(SETTLE_MS, () => this.#poll());
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
      const watcher = watch(folder, { persistent: false }, (_, name) => this.#onEvent(name));
      // The next poll watches the folder again.
      watcher.on('error', () => this.#drop(folder, watcher));
      this.#watchers.set(folder, watcher);
    } catch {
      // The folder does not exist, or the system allows no more watches. Polling continues.
    }
  }

  #drop(folder: string, watcher: FSWatcher): void {
    watcher.close();
    if (this.#watchers.get(folder) === watcher) this.#watchers.delete(folder);
  }
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() === true;
