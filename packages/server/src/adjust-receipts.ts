/** Refunds, settles, releases and renews the charges of receipts. */
import type { Adjustment, Store } from 'sluice';
import { isConcurrency } from 'sluice/engine';

/** A store that applies a receipt at most once, even if several processes settle it. */
export type ReceiptStore = Store & Required<Pick<Store, 'adjustOnce'>>;

export interface Refund {
  /** The change of the charged cost; negative for a refund. */
  readonly change: number;
  /** Whether the receipt had been used before. If so, nothing changed. */
  readonly used: boolean;
}

const sum = (changes: readonly number[]): number =>
  changes.reduce((total, change) => total + change, 0);

const isHold = ({ policy }: Adjustment): boolean => isConcurrency(policy);

/** Applies the adjustments of all limits except concurrency limits, at most once per receipt id. */
export async function adjustOnce(
  store: ReceiptStore,
  id: string,
  adjustments: readonly Adjustment[],
  client: string | undefined,
): Promise<Refund> {
  const charges = adjustments.filter((each) => !isHold(each));
  if (charges.length === 0) return { change: 0, used: false };
  const changes = await store.adjustOnce(id, charges, undefined, undefined, client);
  return { change: sum(changes ?? []), used: changes === undefined };
}

/**
 * Applies the adjustments of concurrency limits, which release holds. Resolves to the sum of the
 * changes. Needs no receipt id, because the store releases each hold only once.
 */
export async function releaseHolds(
  store: ReceiptStore,
  adjustments: readonly Adjustment[],
): Promise<number> {
  const holds = adjustments.filter(isHold);
  return holds.length === 0 ? 0 : sum(await store.adjust(holds));
}

/**
 * Renews the holds if `renew` is true, otherwise releases them. Resolves to false if one of them
 * had expired or had been released before.
 */
export async function adjustHolds(
  store: ReceiptStore,
  holds: readonly Adjustment[],
  renew: boolean,
): Promise<boolean> {
  const renewed = holds.map((hold) => ({ ...hold, delta: 0, renew: true as const }));
  const changes = await store.adjust(renew ? renewed : holds);
  return changes.every((change) => change !== 0);
}
