import type { Receipt } from './decision.ts';

/**
 * The receipts that one limiter has used. A used receipt is marked by a non-enumerable property,
 * which JSON and copies of the receipt do not contain. Frozen receipts are stored in a `WeakSet`
 * instead. A `WeakSet` of all receipts would block the event loop for 20 ms when it grows.
 */
export class UsedReceipts {
  readonly #mark = Symbol('used');
  readonly #frozen = new WeakSet<Receipt>();

  /** Marks a receipt as used. Returns false if it was used before. */
  add(receipt: Receipt): boolean {
    if (Object.hasOwn(receipt, this.#mark) || this.#frozen.has(receipt)) return false;
    if (Object.isExtensible(receipt)) {
      Object.defineProperty(receipt, this.#mark, { configurable: true });
    } else this.#frozen.add(receipt);
    return true;
  }

  /** Marks a receipt as unused. */
  delete(receipt: Receipt): void {
    Reflect.deleteProperty(receipt, this.#mark);
    this.#frozen.delete(receipt);
  }
}
