/**
 * Allocator of blocks of one size, for the logs of one policy.
 *
 * Blocks lie in chunks. A chunk starts with one block and doubles when it is full, up to
 * `2 ** bits` blocks. A chunk of more than 64 words is released when its last block is freed. Free
 * blocks are linked by their first word. A link is relative and 0 links to the block that follows,
 * so new memory is a list of free blocks.
 */
export type Words = Uint32Array | Float64Array;

/** Chunks of this many words stay, so that a log that comes and goes allocates nothing. */
const KEPT_WORDS = 64;

export class Blocks {
  readonly #wide: boolean;
  readonly #blockWords: number;
  readonly #bits: number;
  readonly #mask: number;
  readonly #chunks: (Words | undefined)[] = [];
  /** How many blocks of each chunk are in use, and the first that is free. */
  readonly #used: number[] = [];
  readonly #free: number[] = [];
  /** The chunk that blocks are taken from until it is full. */
  cursor = 0;
  /** Blocks in use, over all chunks. */
  used = 0;

  constructor(wide: boolean, blockWords: number, bits: number) {
    this.#wide = wide;
    this.#blockWords = blockWords;
    this.#bits = bits;
    this.#mask = 2 ** bits - 1;
  }

  /** Returns the words of a block's chunk. `allocate` may replace them. */
  wordsOf(block: number): Words {
    return this.#chunks[block >>> this.#bits]!;
  }

  /** Returns where a block begins in its chunk. */
  startOf(block: number): number {
    return (block & this.#mask) * this.#blockWords;
  }

  allocate(): number {
    const at = this.#chunkWithRoom();
    const place = this.#free[at] ?? 0;
    const start = place * this.#blockWords;
    let words = this.#chunks[at];
    if (words === undefined || words.length === start) {
      const length = 2 * start || this.#blockWords;
      const grown = this.#wide ? new Float64Array(length) : new Uint32Array(length);
      grown.set(words ?? []);
      words = grown;
      this.#chunks[at] = words;
    }
    // In 32-bit words a negative link is kept modulo 2^32.
    this.#free[at] = (place + 1 + words[start]) | 0;
    this.#used[at] = (this.#used[at] ?? 0) + 1;
    this.used++;
    return at * (this.#mask + 1) + place;
  }

  free(block: number): void {
    const at = block >>> this.#bits;
    const place = block & this.#mask;
    const words = this.wordsOf(block);
    words[this.startOf(block)] = this.#free[at] - place - 1;
    this.#free[at] = place;
    this.used--;
    if (--this.#used[at] > 0 || words.length <= KEPT_WORDS) return;
    this.#free[at] = 0;
    this.#chunks[at] = undefined;
  }

  /**
   * Goes from chunk to chunk, each until it is full, and starts over at the first one if there is
   * at least a free block a chunk (half a block, if a chunk has one). So the blocks found pay for
   * the search, and after a burst the blocks in use gather in few chunks.
   */
  #chunkWithRoom(): number {
    while (this.#free[this.cursor] > this.#mask) {
      const { length } = this.#free;
      this.cursor++;
      if (this.cursor === length && this.used < length * (this.#mask || 0.5)) this.cursor = 0;
    }
    return this.cursor;
  }
}
