/** A case of the store contract, and what the cases share. */
import type { Decision, Receipt } from '../decision.ts';
import type { Store } from '../store.ts';

export interface ContractCase {
  readonly name: string;
  run(openStore: () => Store | Promise<Store>): Promise<void>;
}

export const START_MS = 1_745_000_100_000;

export function equal(what: string, got: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(got), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: expected ${right}, got ${left}`);
}

export function receiptOf(decision: Decision): Receipt {
  if (!decision.allowed) throw new Error('expected to be admitted');
  return decision.receipt;
}
