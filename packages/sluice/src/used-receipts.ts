import type { Receipt } from './decision.ts';

/**
 * The receipts that one limiter has used. Each carries a mark, which JSON and copies do not show. A
 * `WeakSet` of all of them would hold the event loop for 20 ms when it grows, so only frozen
 * receipts are in one.
 */
export class UsedReceipts {
  readonly #mark = Symbol('used');
  readonly #frozen = new WeakSet<Receipt>();

  /** Marks a receipt as used. Returns false if it was. */
  add(receipt: Receipt): boolean {
    if (Object.hasOwn(receipt, this.#mark) || this.#frozen.has(receipt)) return false;
    if (Object.isExtensible(receipt)) {
      Object.defineProperty(receipt, this.#mark, { configurable: true });
    } else this.#frozen.add(receipt);
    return true;
  }

  /** Makes a receipt unused. */
  delete(receipt: Receipt): void {
    Reflect.deleteProperty(receipt, this.#mark);
    this.#frozen.delete(receipt);
  }
}
