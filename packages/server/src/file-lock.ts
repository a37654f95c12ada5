/**
 * A lock beside a file, so that two instances never write it. It survives crashes: the lock names
 * the process by pid and start time, and where that process cannot be looked up, as in another
 * container, the owner shows that it runs by touching the lock every 5 seconds.
 */
import { readFileSync, readlinkSync, unlinkSync } from 'node:fs';
import { readFile, rename, stat, unlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { systemClock } from 'sluice';
import { isRecord } from 'sluice/engine';
import { withTimeout } from './with-timeout.ts';

/** How often the owner touches its lock. */
export const TOUCH_MS = 5000;
/** A lock that was not touched for this long has no owner any more. */
export const STALE_MS = 4 * TOUCH_MS;
const LOOK_MS = 500;
const RELEASE_MS = 1000;

interface Owner {
  readonly pid: number;
  /** Of the process, in ticks since the machine started: a pid is used again, this pair is not. */
  readonly startTime: string;
  /** Where the pid means something: the machine since it started, and the container. */
  readonly place: string;
  readonly host: string;
}

/** Paths that this process has locked. */
const held = new Set<string>();

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

  /** Locks a file. Throws a `LockedError` that names the owner if another instance has it. */
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
      // The next instance finds that its owner is gone.
    }
  };

  #touchLater(): void {
    this.#cancelTouch = systemClock.schedule(TOUCH_MS, async () => {
      const isOurs = await this.#touch().catch(() => true);
      if (isOurs && !this.#isReleased) this.#touchLater();
    });
  }

  /** Returns false if another instance has it now, as after this process was stopped for long. */
  async #touch(): Promise<boolean> {
    const found = await readFile(this.#path, 'utf8').catch(() => undefined);
    // Written, so that the time is that of the file system. One that was deleted is put back.
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

/** Deletes a lock whose owner is gone; throws a `LockedError` if it is not. */
async function removeStale(path: string, staleMs: number): Promise<void> {
  const found = await readFile(path, 'utf8').catch(() => undefined);
  if (found === undefined) return;
  const owner = ownerIn(found);
  const who = owner === undefined ? 'another instance' : `process ${owner.pid} on ${owner.host}`;
  const isRunning = owner && isRunningHere(owner);
  if (isRunning === true) throw new LockedError(who);
  if (isRunning === undefined) await waitUntilStale(path, who, staleMs);
  // Another instance may have found the same and be faster: only the lock that was read is deleted.
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

/** The times are those of one clock, that of the file system: clocks of machines differ. */
async function waitUntilStale(path: string, who: string, staleMs: number): Promise<void> {
  const touchedAt = (): Promise<number | undefined> =>
    stat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => undefined,
    );
  const first = await touchedAt();
  const now = await fileSystemNow(path);
  if (first === undefined || now - first >= staleMs) return;
  for (let waitedMs = 0; waitedMs < staleMs; waitedMs += LOOK_MS) {
    await new Promise<void>((done) => systemClock.schedule(Math.min(LOOK_MS, staleMs), done));
    const touched = await touchedAt();
    if (touched === undefined) return;
    if (touched !== first) throw new LockedError(who);
  }
}

/** The time that the file system gives to a file that is written now. */
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

/** Undefined if that cannot be known from here. */
function isRunningHere({ pid, startTime, place }: Owner): boolean | undefined {
  const here = ownerHere();
  if (place !== here.place || place === '') return undefined;
  // This process holds no such lock, so it is one that it left behind.
  if (pid === here.pid && startTime === here.startTime) return false;
  const now = startTimeOf(pid);
  return now !== undefined && now === startTime;
}

const ownerHere = (): Owner => ({
  pid: process.pid,
  startTime: startTimeOf('self') ?? '',
  place: placeHere(),
  host: hostname(),
});

/** Linux only. Elsewhere the lock is known by its touches alone. */
function placeHere(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return '';
  }
}

/** The 22nd field; the second, the name in brackets, may hold anything. */
function startTimeOf(pid: number | 'self'): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}
