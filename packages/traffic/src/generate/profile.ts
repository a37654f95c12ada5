/**
 * Generates the times of requests. The duration is divided into pieces with weights, and each piece
 * gets a number of requests proportional to its length and weight. A piece is divided into blocks
 * of equal length with 64 requests each. Times are random within a block, so that only one block at
 * a time must be sorted in memory.
 */
import type { Random } from './random.ts';

export interface Piece {
  readonly lengthMs: number;
  /** Requests per ms, relative to the other pieces. */
  readonly weight: number;
  /** Share of requests from special clients, such as an abuser, from 0 to 1. */
  readonly special: number;
}

/** The time of one request. */
export interface Moment {
  readonly timeMs: number;
  readonly piece: Piece;
}

const BLOCK = 64;

const massOf = ({ lengthMs, weight }: Piece): number => lengthMs * weight;

/** Yields exactly `requests` times, in ascending order. */
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
