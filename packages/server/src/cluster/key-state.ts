/** Reads the state of a key from the reply of the store process. */
import type { KeyState } from 'sluice';
import { isInteger, isRecord } from 'sluice/engine';
import { ProtocolError, type ValueReader } from './lines.ts';

/** Reads and validates the state of a key. Returns undefined if the key has no state. */
export function readState(results: ValueReader): KeyState | undefined {
  const state = results.any() as KeyState | 0;
  if (state === 0) return undefined;
  if (!isState(state)) throw new ProtocolError('Expected the state of a key, or 0');
  // The last cell of a sliding log holds pointers. Read as a floating-point number, their bits can
  // be NaN, which JSON writes as null.
  return { ...state, cells: state.cells.map((cell) => cell ?? Number.NaN) };
}

function isState(state: unknown): state is KeyState {
  if (!isRecord(state)) return false;
  const { used, remaining, resetAfterMs, cells, entries, entryCount } = state;
  const { holds = [], blockedUntilMs = 0, blocks = 0 } = state;
  const numbers = [used, remaining, resetAfterMs, blockedUntilMs, blocks];
  const isNumbers = numbers.every((each) => typeof each === 'number');
  const isLists = Array.isArray(cells) && Array.isArray(entries) && Array.isArray(holds);
  return isNumbers && isLists && isInteger(entryCount, entries.length);
}
