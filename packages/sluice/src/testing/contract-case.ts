/** The type of a case of the store contract, and functions that the cases share. */
import type { Decision, Receipt } from '../decision.ts';
import type { Store } from '../store.ts';

export interface ContractCase {
  readonly name: string;
  run(openStore: () => Store | Promise<Store>): Promise<void>;
}

export const START_MS = 1_745_000_100_000;

/** Throws unless both values have the same JSON. `what` names the value in the error message. */
export function equal(what: string, got: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(got), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: expected ${right}, got ${left}`);
}

/** Returns the receipt of an admitted check. Throws if the check was denied. */
export function receiptOf(decision: Decision): Receipt {
  if (!decision.allowed) throw new Error('expected the check to be admitted, got a denial');
  return decision.receipt;
}
