/**
 * When requests come: time in pieces, each with a weight, and exactly as many requests in each
 * piece as its part of the whole. Within a piece they fall in blocks, evenly from block to block
 * and by chance inside of one, so that times come in order, one by one, from no more memory than a
 * block.
 */
import type { Random } from './random.ts';

export interface Piece {
  readonly lengthMs: number;
  /** How many requests come in a ms, compared with the other pieces. */
  readonly weight: number;
  /** Which part of them is not of the ordinary clients, from 0 to 1. */
  readonly special: number;
}

export interface Moment {
  readonly timeMs: number;
  readonly piece: Piece;
}

const BLOCK = 64;

const massOf = ({ lengthMs, weight }: Piece): number => lengthMs * weight;

/** As many moments as are asked for, in order. */
export function* momentsOf(
  pieces: readonly Piece[],
  startMs: number,
  requests: number,
  random: Random,
): Generator<Moment> {
  const total = pieces.reduce((sum, piece) => sum + massOf(piece), 0);
  let mass = 0;
  let done = 0;
  let pieceMs = startMs;
  for (const piece of pieces) {
    mass += massOf(piece);
    const until = Math.round((mass / total) * requests);
    for (const timeMs of timesIn(pieceMs, piece.lengthMs, until - done, random)) {
      yield { timeMs, piece };
    }
    done = until;
    pieceMs += piece.lengthMs;
  }
}

function* timesIn(
  startMs: number,
  lengthMs: number,
  count: number,
  random: Random,
): Generator<number> {
  for (let from = 0; from < count; from += BLOCK) {
    const to = Math.min(from + BLOCK, count);
    const block = Float64Array.from({ length: to - from }, () => random.fraction()).sort();
    for (const fraction of block) {
      const part = (from + fraction * (to - from)) / count;
      yield Math.floor(startMs + part * lengthMs);
    }
  }
}
