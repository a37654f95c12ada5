/**
 * Allocator of blocks of one size, for the logs of one policy.
 *
 * Blocks lie in chunks. Chunks of all block sizes are equally large, so that a chunk that one size
 * releases serves the next: two may wait in a pool, as a dropped array is freed only later. The
 * first chunk starts with one block and doubles when it is full, so that a policy that is hardly
 * used takes little. A chunk of more than 64 words is released when its last block is freed. Free
 * blocks are linked by their first word. A link is relative and 0 links to the block that follows,
 * so new memory is a list of free blocks.
 */
export type Words = Uint32Array | Float64Array;

const CHUNK_WORDS = 8192;
/** The number of a block is that of its chunk and, in so many bits, its place there. */
const PLACE_BITS = 10;
const PLACE_MASK = 2 ** PLACE_BITS - 1;
const MAX_POOLED = 2;
/** Chunks of this many words stay, so that a log that comes and goes allocates nothing. */
const KEPT_WORDS = 64;

export class Blocks {
  readonly #wide: boolean;
  readonly #blockWords: number;
  /** Blocks in a chunk. */
  readonly #count: number;
  readonly #chunks: (Words | undefined)[] = [];
  /** How many blocks of each chunk are in use, and the first that is free. */
  readonly #used: number[] = [];
  readonly #free: number[] = [];
  /** The chunk that blocks are taken from until it is full. */
  cursor = 0;
  /** Blocks in use, over all chunks. */
  used = 0;

  /** Released chunks, shared with the other block sizes of the same width. */
  readonly #pool: Words[];

  constructor(wide: boolean, blockWords: number, pool: Words[]) {
    this.#wide = wide;
    this.#pool = pool;
    this.#blockWords = blockWords;
    this.#count = Math.max(Math.floor(CHUNK_WORDS / blockWords), 1);
  }

  /** Returns the words of a block's chunk. `allocate` may replace them. */
  wordsOf(block: number): Words {
    return this.#chunks[block >>> PLACE_BITS]!;
  }

  /** Returns where a block begins in its chunk. */
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
    // In 32-bit words a negative link is kept modulo 2^32.
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
    if (--this.#used[at] > 0 || words.length <= KEPT_WORDS) return;
    this.#free[at] = 0;
    this.#chunks[at] = undefined;
    if (words.length === CHUNK_WORDS && this.#pool.length < MAX_POOLED) this.#pool.push(words);
  }

  /**
   * Goes from chunk to chunk, each until it is full, and starts over at the first one if there is
   * at least a free block a chunk (half a block, if a chunk has one). So the blocks found pay for
   * the search, and after a burst the blocks in use gather in few chunks.
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
