/**
 * Merges logs by time: the logs of several servers, or the parts of a rotated log in any order. A
 * log is opened only when the merge reaches its start time, so that few files are open at once.
 */
import type { Entry } from './entry.ts';

export interface Log {
  /** Lower bound of the times in the log. */
  readonly fromMs: number;
  /** Yields non-empty batches. Times never decrease. */
  entries(): AsyncGenerator<readonly Entry[]>;
}

/** Read position in an open log. */
class Cursor {
  batch: readonly Entry[] = [];
  at = 0;
  readonly batches: AsyncGenerator<readonly Entry[]>;

  constructor(log: Log) {
    this.batches = log.entries();
  }

  get headMs(): number {
    return this.batch[this.at].timeMs;
  }

  /** Reads the next batch. Resolves to false at the end of the log. */
  async fill(): Promise<boolean> {
    const { value, done } = await this.batches.next();
    this.batch = done ? [] : value;
    this.at = 0;
    return !done;
  }

  /**
   * Returns the next entries with times up to `untilMs`. Returns at least one entry, even if its
   * time is later.
   */
  take(untilMs: number): readonly Entry[] {
    const start = this.at;
    do this.at++;
    while (this.at < this.batch.length && this.headMs <= untilMs);
    const isWhole = start === 0 && this.at === this.batch.length;
    return isWhole ? this.batch : this.batch.slice(start, this.at);
  }
}

const BATCH = 1024;

export async function* merged(logs: readonly Log[]): AsyncGenerator<readonly Entry[]> {
  const closed = logs.toSorted((one, other) => one.fromMs - other.fromMs);
  const open: Cursor[] = [];
  let batch: Entry[] = [];
  try {
    for (;;) {
      const [first, second] = earliest(open);
      if (closed.length > 0 && !(first !== undefined && first.headMs < closed[0].fromMs)) {
        const cursor = new Cursor(closed.shift() as Log);
        if (await cursor.fill()) open.push(cursor);
        continue;
      }
      if (first === undefined) break;
      const untilMs = Math.min(second?.headMs ?? Infinity, closed[0]?.fromMs ?? Infinity);
      const taken = first.take(untilMs);
      if (batch.length === 0 && taken.length >= BATCH) yield taken;
      else for (const entry of taken) batch.push(entry);
      if (batch.length >= BATCH) {
        yield batch;
        batch = [];
      }
      const isEmpty = first.at === first.batch.length;
      if (isEmpty && !(await first.fill())) open.splice(open.indexOf(first), 1);
    }
    if (batch.length > 0) yield batch;
  } finally {
    await Promise.all(open.map(({ batches }) => batches.return(undefined)));
  }
}

/** Returns the two cursors whose next entries are the earliest. */
function earliest(open: readonly Cursor[]): readonly (Cursor | undefined)[] {
  let first: Cursor | undefined;
  let second: Cursor | undefined;
  for (const cursor of open) {
    if (first === undefined || cursor.headMs < first.headMs) [first, second] = [cursor, first];
    else if (second === undefined || cursor.headMs < second.headMs) second = cursor;
  }
  return [first, second];
}
