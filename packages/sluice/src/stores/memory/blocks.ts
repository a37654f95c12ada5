/**
 * Allocator of memory blocks of one size, which store the logs of one policy.
 *
 * Blocks are parts of larger arrays, the chunks. Allocators of all block sizes use chunks of the
 * same length, so that a chunk that one allocator releases can be reused by another. A pool keeps
 * up to two released chunks, because an unused array is freed only at the next garbage collection.
 * The first chunk starts with one block and doubles when it is full, so that a policy with few keys
 * takes little memory. A chunk of more than 64 words is released when its last block is freed.
 *
 * The free blocks of a chunk form a linked list. The first word of a free block is the distance
 * from the block after it to the next free block of the list. New memory is zero, so its blocks
 * form such a list without initialization.
 */
export type Words = Uint32Array | Float64Array;

const CHUNK_WORDS = 8192;
/** A block number is the chunk number, followed by this many bits for the place in the chunk. */
const PLACE_BITS = 10;
const PLACE_MASK = 2 ** PLACE_BITS - 1;
const MAX_POOLED_CHUNKS = 2;
/** Chunks up to this size are never released. Avoids an allocation for each short log. */
const MAX_KEPT_WORDS = 64;

export class Blocks {
  readonly #wide: boolean;
  readonly #blockWords: number;
  /** Number of blocks in a chunk. */
  readonly #count: number;
  readonly #chunks: (Words | undefined)[] = [];
  /** Number of blocks in use, by chunk. */
  readonly #used: number[] = [];
  /** First free block, by chunk. */
  readonly #free: number[] = [];
  /** The chunk from which blocks are allocated until it is full. */
  cursor = 0;
  /** Number of blocks in use, over all chunks. */
  used = 0;

  /** Released chunks, shared with the other block sizes of the same width. */
  readonly #pool: Words[];

  constructor(wide: boolean, blockWords: number, pool: Words[]) {
    this.#wide = wide;
    this.#pool = pool;
    this.#blockWords = blockWords;
    this.#count = Math.max(Math.floor(CHUNK_WORDS / blockWords), 1);
  }

  /** Returns the words of a block's chunk. The next `allocate` may replace the array. */
  wordsOf(block: number): Words {
    return this.#chunks[block >>> PLACE_BITS]!;
  }

  /** Returns the index of a block's first word in its chunk. */
  startOf(block: number): number {
    return (block & PLACE_MASK) * this.#blockWords;
  }

  allocate(): number {
    const at = this.#chunkWithRoom();
    const place = this.#free[at] ?? 0;
    const start = place * this.#blockWords;
    let words = this.#chunks[at];
    if (words === undefined || words.length < start + this.#blockWords) {
      const most = Math.max(CHUNK_WORDS, this.#blockWords);
      const length = at > 0 ? most : Math.min(2 * start || this.#blockWords, most);
      let grown = length === CHUNK_WORDS ? this.#pool.pop()?.fill(0) : undefined;
      grown ??= this.#wide ? new Float64Array(length) : new Uint32Array(length);
      grown.set(words ?? []);
      words = grown;
      this.#chunks[at] = words;
    }
    // `| 0` restores a negative distance, which a 32-bit word holds modulo 2^32.
    this.#free[at] = (place + 1 + words[start]) | 0;
    this.#used[at] = (this.#used[at] ?? 0) + 1;
    this.used++;
    return at * 2 ** PLACE_BITS + place;
  }

  free(block: number): void {
    const at = block >>> PLACE_BITS;
    const place = block & PLACE_MASK;
    const words = this.wordsOf(block);
    words[this.startOf(block)] = this.#free[at] - place - 1;
    this.#free[at] = place;
    this.used--;
    if (--this.#used[at] > 0 || words.length <= MAX_KEPT_WORDS) return;
    this.#free[at] = 0;
    this.#chunks[at] = undefined;
    if (words.length === CHUNK_WORDS && this.#pool.length < MAX_POOLED_CHUNKS)
      this.#pool.push(words);
  }

  /**
   * Returns the index of a chunk with a free block. Uses one chunk until it is full, then the next.
   * After the last chunk, starts again with the first if there is more than one free block per
   * chunk on average (half a block, if chunks have one block). So the search takes constant
   * amortized time, and after a burst the blocks in use gather in few chunks.
   */
  #chunkWithRoom(): number {
    while (this.#free[this.cursor] >= this.#count) {
      const { length } = this.#free;
      this.cursor++;
      if (this.cursor === length && this.used < length * (this.#count - 1 || 0.5)) this.cursor = 0;
    }
    return this.cursor;
  }
}
