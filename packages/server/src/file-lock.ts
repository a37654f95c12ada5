/**
 * Locks a file by a lock file beside it, so that two instances never write the same file.
 *
 * The lock file contains the pid and start time of its owner, so the lock of a crashed process is
 * detected as stale. If the owner cannot be looked up, for example because it runs in another
 * container, the modification time decides. The owner touches its lock file every 5 seconds, and a
 * lock file that was not touched for 20 seconds is stale.
 */
import { readFileSync, readlinkSync, unlinkSync } from 'node:fs';
import { readFile, rename, stat, unlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { withTimeout } from './with-timeout.ts';

export const TOUCH_MS = 5000;
export const STALE_MS = 4 * TOUCH_MS;
const POLL_MS = 500;
const RELEASE_MS = 1000;

interface Owner {
  readonly pid: number;
  /**
   * In clock ticks since boot. Pids are reused, but no two processes have the same pid and start
   * time.
   */
  readonly startTime: string;
  /** Boot id and pid namespace. The pid is valid only in these. */
  readonly pidScope: string;
  readonly host: string;
}

/** Paths that this process has locked. */
const held = new Set<string>();

/** Thrown if another instance has the lock. The message names that instance. */
export class LockedError extends Error {}

export class FileLock {
  readonly #path: string;
  readonly #text: string;
  #cancelTouch: () => void = () => {};
  #isReleased = false;

  private constructor(path: string, text: string) {
    this.#path = path;
    this.#text = text;
    held.add(path);
    process.on('exit', this.#onExit);
    this.#touchLater();
  }

  /** Locks a file. Throws a `LockedError` that names the owner if another instance has the lock. */
  static async take(file: string, staleMs = STALE_MS): Promise<FileLock> {
    const path = `${resolve(file)}.lock`;
    if (held.has(path)) throw new LockedError('another service of this process');
    const text = `${JSON.stringify(ownerHere())}\n`;
    held.add(path);
    try {
      while (!(await create(path, text))) await removeStale(path, staleMs);
      return new FileLock(path, text);
    } catch (error) {
      held.delete(path);
      throw error;
    }
  }

  readonly #onExit = (): void => {
    try {
      unlinkSync(this.#path);
    } catch {
      // The lock file stays. The next instance detects that its owner has exited.
    }
  };

  #touchLater(): void {
    this.#cancelTouch = systemClock.schedule(TOUCH_MS, async () => {
      const isOurs = await this.#touch().catch(() => true);
      if (isOurs && !this.#isReleased) this.#touchLater();
    });
  }

  /**
   * Updates the modification time of the lock file. Returns false if another instance has taken the
   * lock, for example while this process was paused.
   */
  async #touch(): Promise<boolean> {
    const found = await readFile(this.#path, 'utf8').catch(() => undefined);
    // A write sets the modification time by the clock of the file system. `utimes` would use the
    // clock of this machine. A deleted lock file is created again.
    if (found === undefined) await create(this.#path, this.#text);
    else if (found === this.#text) await writeFile(this.#path, this.#text, { flag: 'r+' });
    return found === undefined || found === this.#text;
  }

  async release(): Promise<void> {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#cancelTouch();
    process.off('exit', this.#onExit);
    await withTimeout(
      RELEASE_MS,
      unlink(this.#path).catch(() => {}),
    );
    held.delete(this.#path);
  }
}

async function create(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Deletes a stale lock; throws a `LockedError` if its owner is running. */
async function removeStale(path: string, staleMs: number): Promise<void> {
  const found = await readFile(path, 'utf8').catch(() => undefined);
  if (found === undefined) return;
  const owner = ownerIn(found);
  const ownerText =
    owner === undefined ? 'another instance' : `process ${owner.pid} on ${owner.host}`;
  const isRunning = owner && isRunningHere(owner);
  if (isRunning === true) throw new LockedError(ownerText);
  if (isRunning === undefined) await waitUntilStale(path, ownerText, staleMs);
  // Another instance may have replaced the stale lock meanwhile. So the lock file is renamed first,
  // and deleted only if it still has the content that was read above.
  const aside = `${path}.${process.pid}.stale`;
  await rename(path, aside).catch(() => {});
  const moved = await readFile(aside, 'utf8').catch(() => undefined);
  if (moved !== undefined && moved !== found) {
    await create(path, moved);
    await unlink(aside);
    throw new LockedError('another instance that starts at the same time');
  }
  await unlink(aside).catch(() => {});
}

/**
 * Resolves when the lock is stale or deleted. Throws a `LockedError` if its owner touches it.
 * Compares only times of the file system's clock, because the clocks of machines differ.
 */
async function waitUntilStale(path: string, ownerText: string, staleMs: number): Promise<void> {
  const touchedAt = (): Promise<number | undefined> =>
    stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    );
  const first = await touchedAt();
  const now = await fileSystemNow(path);
  if (first === undefined || now - first >= staleMs) return;
  for (let waitedMs = 0; waitedMs < staleMs; waitedMs += POLL_MS) {
    await new Promise<void>((done) => systemClock.schedule(Math.min(POLL_MS, staleMs), done));
    const touched = await touchedAt();
    if (touched === undefined) return;
    if (touched !== first) throw new LockedError(ownerText);
  }
}

/**
 * Returns the current time by the clock of the file system: writes a file and reads its
 * modification time.
 */
async function fileSystemNow(path: string): Promise<number> {
  const probe = `${path}.${process.pid}.now`;
  await writeFile(probe, '');
  const { mtimeMs } = await stat(probe);
  await unlink(probe);
  return mtimeMs;
}

function ownerIn(text: string): Owner | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isOwner = isRecord(value) && Number.isSafeInteger(value.pid);
    return isOwner ? (value as unknown as Owner) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether the owner is running; undefined if this process cannot look it up. */
function isRunningHere({ pid, startTime, pidScope }: Owner): boolean | undefined {
  const here = ownerHere();
  if (pidScope !== here.pidScope || pidScope === '') return undefined;
  // The lock file names this process, which does not hold the lock: the file was left behind.
  if (pid === here.pid && startTime === here.startTime) return false;
  const now = startTimeOf(pid);
  return now !== undefined && now === startTime;
}

const ownerHere = (): Owner => ({
  pid: process.pid,
  startTime: startTimeOf('self') ?? '',
  pidScope: pidScopeHere(),
  host: hostname(),
});

/**
 * Returns the boot id and the pid namespace of this process. Empty on systems other than Linux,
 * where only the modification time of the lock file decides.
 */
function pidScopeHere(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return '';
  }
}

/**
 * Returns field 22 of /proc/PID/stat, the start time. Field 2 is the name of the process in
 * parentheses. The name can contain spaces and parentheses, so fields are counted after the last
 * parenthesis.
 */
function startTimeOf(pid: number | 'self'): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
