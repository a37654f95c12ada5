/** Returns the time of the monotonic clock of the machine, in ms with fractions. */
export function machineMs(): number;

/** Counts admissions by the interval, in whole ms, in which they certainly happened. */
export class AdmissionLog {
  add(beforeMs: number, afterMs: number, units?: number): void;
  /** Returns three numbers for each interval: its beginning, its end, and the units in it. */
  numbers(): number[];
}

/** Returns the most units that certainly are in one window, and the number of windows over. */
export function windowsOver(
  numbers: readonly number[] | Float64Array,
  windowMs: number,
  limit: number,
): { readonly most: number; readonly over: number };
