/**
 * Bounds the memory of request bodies, over all connections of this process and for each client. A
 * client could open many connections and send almost all of a 1 MiB body on each. Bodies up to
 * 16 KiB are not counted, so ordinary checks are served even if large bodies use the whole budget.
 */

export const SMALL_BODY_BYTES = 16 * 1024;
export const LARGE_BODIES_BYTES = 64 * 1024 * 1024;
/** Maximum bytes of large bodies per client address. */
export const CLIENT_BODIES_BYTES = LARGE_BODIES_BYTES / 4;

/** Total size of the large bodies of all pending requests. */
let heldBytes = 0;
const heldByClient = new Map<string, number>();

/** A response or stream. The share is released when the response or stream closes. */
interface CloseEmitter {
  once(event: 'close', listener: () => void): unknown;
}

/** The part of the budget that one request holds until its response or connection closes. */
export class BodyShare {
  #bytes = 0;

  /** `client` is the address that the connection comes from. */
  constructor(
    private readonly response: CloseEmitter,
    private readonly client: string,
  ) {}

  /**
   * Sets the size of the body. Returns false and changes nothing if the size would exceed the
   * budget.
   */
  grow(size: number): boolean {
    if (size <= SMALL_BODY_BYTES) return true;
    const more = size - this.#bytes;
    const ofClient = heldByClient.get(this.client) ?? 0;
    if (heldBytes + more > LARGE_BODIES_BYTES) return false;
    if (ofClient + more > CLIENT_BODIES_BYTES) return false;
    if (this.#bytes === 0) this.response.once('close', () => this.#release());
    heldBytes += more;
    heldByClient.set(this.client, ofClient + more);
    this.#bytes = size;
    return true;
  }

  #release(): void {
    heldBytes -= this.#bytes;
    const ofClient = (heldByClient.get(this.client) ?? 0) - this.#bytes;
    if (ofClient > 0) heldByClient.set(this.client, ofClient);
    else heldByClient.delete(this.client);
    this.#bytes = 0;
  }
}
