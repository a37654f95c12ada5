/**
 * Logs when calls were admitted, and finds the windows that certainly contain more than a limit.
 *
 * The time of an admission is known as an interval: from before the call was made until after its
 * result was seen. All times are in ms of the monotonic clock, which all processes of a machine
 * share. A log is compact: it counts the admissions by their interval in whole milliseconds.
 */

/** Returns the time of the monotonic clock of the machine, in ms with fractions. */
export function machineMs() {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
}

/** The longest interval that a log can hold, in ms. Longer ones are cut at their beginning. */
const LONGEST_MS = 2 ** 20;

export class AdmissionLog {
  #counts = new Map();

  add(beforeMs, afterMs, units = 1) {
    const to = Math.floor(afterMs) + 1;
    const length = Math.min(to - Math.floor(beforeMs), LONGEST_MS - 1);
    const interval = to * LONGEST_MS + length;
    this.#counts.set(interval, (this.#counts.get(interval) ?? 0) + units);
  }

  /** Returns three numbers for each interval: its beginning, its end, and the units in it. */
  numbers() {
    return [...this.#counts].flatMap(([interval, units]) => {
      const to = Math.floor(interval / LONGEST_MS);
      return [to - (interval % LONGEST_MS), to, units];
    });
  }
}

/**
 * Returns the largest number of units that certainly were admitted within one window, and how many
 * windows contain more than `limit`. `numbers` are those of one log, or of several logs together.
 *
 * A store that counts whole milliseconds may let an admission leave its window up to 1 ms early.
 * Pass `windowMs - 1` to allow this.
 */
export function windowsOver(numbers, windowMs, limit) {
  const intervals = [];
  for (let at = 0; at < numbers.length; at += 3) {
    intervals.push({ from: numbers[at], to: numbers[at + 1], units: numbers[at + 2] });
  }
  // Windows begin with an interval. From the last one to the first, `ended` counts the units of the
  // intervals that begin in or after the window, by their ends.
  intervals.sort((a, b) => b.from - a.from);
  const startMs = intervals.reduce((least, { from }) => Math.min(least, from), Infinity);
  const endMs = intervals.reduce((most, { to }) => Math.max(most, to), 0);
  const ended = new PrefixSums(intervals.length === 0 ? 0 : endMs - startMs + 1);
  let [most, over] = [0, 0];
  for (const [at, { from, to, units }] of intervals.entries()) {
    ended.add(to - startMs, units);
    if (intervals[at + 1]?.from === from) continue;
    const sum = ended.upTo(Math.min(from + windowMs, endMs) - startMs);
    most = Math.max(most, sum);
    if (sum > limit) over++;
  }
  return { most, over };
}

/** Numbers whose sums up to an index are computed quickly: a Fenwick tree. */
class PrefixSums {
  #sums;

  constructor(size) {
    this.#sums = new Float64Array(size + 1);
  }

  add(index, value) {
    for (let at = index + 1; at < this.#sums.length; at += at & -at) this.#sums[at] += value;
  }

  /** Returns the sum of the values up to and including `index`. */
  upTo(index) {
    let sum = 0;
    for (let at = index + 1; at > 0; at -= at & -at) sum += this.#sums[at];
    return sum;
  }
}
