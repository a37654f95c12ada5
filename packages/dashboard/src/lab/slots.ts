/** Calls per time slot, as the user draws them. */
import { MAX_IN_SLOT } from './settings.ts';

export interface SlotCount {
  readonly slot: number;
  readonly count: number;
}

/** Minimum of `stripTop`. */
export const MIN_TOP = 10;

/** Returns how many calls a bar of full height stands for: at least the limit, if possible. */
export const stripTop = (slots: readonly number[], limit: number): number =>
  Math.min(MAX_IN_SLOT, Math.max(MIN_TOP, limit, ...slots));

/** Returns the slots after a drag from one slot to another: their counts follow a straight line. */
export function withLine(
  slots: readonly number[],
  from: SlotCount,
  to: SlotCount,
): readonly number[] {
  const drawn = [...slots];
  const length = Math.abs(to.slot - from.slot);
  for (let step = 0; step <= length; step++) {
    const part = length === 0 ? 1 : step / length;
    const slot = from.slot + Math.sign(to.slot - from.slot) * step;
    drawn[slot] = Math.round(from.count + (to.count - from.count) * part);
  }
  return drawn;
}
