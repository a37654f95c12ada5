/**
 * Bounds the memory of request bodies, over all connections of this process. A client can open many
 * connections and send almost all of a 1 MiB body on each. Bodies up to 16 KB are not counted: one
 * ordinary check always fits, also while large bodies take the whole budget.
 */
import type { ServerResponse } from 'node:http';

export const SMALL_BODY_BYTES = 16 * 1024;
export const LARGE_BODIES_BYTES = 64 * 1024 * 1024;

/** Bytes of large bodies whose requests are not answered yet. */
let heldBytes = 0;

/** What one request holds of the budget until its response is sent or its client disconnects. */
export class BodyShare {
  #bytes = 0;

  constructor(private readonly response: ServerResponse) {}

  /** Returns false, and takes nothing, if a body of this size does not fit the budget. */
  grow(size: number): boolean {
    if (size <= SMALL_BODY_BYTES) return true;
    const more = size - this.#bytes;
    if (heldBytes + more > LARGE_BODIES_BYTES) return false;
    if (this.#bytes === 0) this.response.once('close', () => this.#release());
    heldBytes += more;
    this.#bytes = size;
    return true;
  }

  #release(): void {
    heldBytes -= this.#bytes;
    this.#bytes = 0;
  }
}
