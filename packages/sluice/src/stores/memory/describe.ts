/** What a key's state means, in words and numbers: for `inspect`. */
import type { Algorithm, AlgorithmName, Answer, State, Terms } from '../../algorithms/algorithm.ts';
import type { Policy } from '../../policy.ts';
import type { KeyState } from '../../store.ts';

/** The names of an algorithm's cells; the logs' cells are told by their entries. */
const CELL_NAMES: Record<AlgorithmName, readonly string[]> = {
  'fixed-window': ['windowEndsAtMs', 'current'],
  'sliding-counter': ['countsUntilMs', 'current', 'previous'],
  'token-bucket': ['fullAtMs', 'level', 'chargedAtMs'],
  'sliding-log': ['emptyAtMs'],
  'sliding-buckets': ['emptyAtMs'],
};

export function describeState(
  policy: Policy,
  algorithm: Algorithm,
  state: State,
  terms: Terms,
  timeMs: number,
  { free, resetAfterMs }: Answer,
): KeyState | undefined {
  if (resetAfterMs === 0) return undefined;
  const names = CELL_NAMES[policy.algorithm];
  const cells = names.map((name, cell) => [name, state.cells[state.at + cell]] as const);
  const described = {
    policy: policy.name,
    algorithm: policy.algorithm,
    used: terms.capacity - free,
    remaining: Math.max(free, 0),
    resetAfterMs,
    state: Object.fromEntries(cells),
  };
  if (!algorithm.keepsEntries) return described;
  const entries: { atMs: number; cost: number }[] = [];
  const newestMs = state.cells[state.at] - terms.windowMs;
  state.entries.visit(state, newestMs, (atMs, cost) => {
    if (atMs > timeMs - terms.windowMs) entries.push({ atMs, cost });
  });
  return { ...described, entries };
}
