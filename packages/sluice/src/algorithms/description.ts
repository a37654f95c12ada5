/**
 * Describes the state of one key: the numbers that a picture or a table needs, and the sentences
 * that the command line, the reports and the dashboard share.
 */
import { countText } from '../format.ts';
import type { LimitParams } from './algorithm.ts';

/** The fields of an inspected key that a description needs. A `KeyState` has all of them. */
export interface DescribedState {
  readonly cells: readonly number[];
  /** The cost that counted when the key was inspected. */
  readonly used: number;
  /** The newest entries of a log, oldest first. */
  readonly entries: readonly LogEntry[];
  /** How many entries count, including those not in `entries`. Default: all are in `entries`. */
  readonly entryCount?: number | undefined;
}

export interface LogEntry {
  readonly atMs: number;
  readonly cost: number;
}

/** The fields of every description. Texts are plain English without a final period. */
interface CommonFields {
  /** The cost that counts, or the tokens that are missing, in whole numbers. */
  readonly used: number;
  /** The largest cost that could ever fit: `burst` for a token bucket, else the limit. */
  readonly limit: number;
  readonly remaining: number;
  /** Admissions before this time no longer count. */
  readonly countsFromMs: number;
  /** `29 of 30 used in the last 1 min` */
  readonly usedText: string;
  /** The comparison that decides a call of the given cost: `29 + 1 = 30 <= 30`. */
  readonly sumText: string;
  /**
   * What frees capacity, or what must happen before the given cost fits: `oldest entry expires in
   * 120 ms`. Empty if nothing is used, or if the oldest entry is not in the inspected `entries`.
   */
  readonly freesText: string;
}

/** A log: entries that count until they are one window old. */
export interface EntriesDescription extends CommonFields {
  readonly shape: 'entries';
  /** The listed entries that still count, oldest first. */
  readonly entries: readonly LogEntry[];
  /** An entry holds the admissions from `atMs - entrySpanMs + 1` to `atMs`. */
  readonly entrySpanMs: number;
}

/** Windows aligned to the clock. `sliding-counter`: the previous and the current window. */
export interface WindowsDescription extends CommonFields {
  readonly shape: 'windows';
  /** Oldest first. */
  readonly windows: readonly CountedWindow[];
}

export interface CountedWindow {
  readonly startMs: number;
  readonly cost: number;
  /** The part of `cost` that counts, from 0 to 1. */
  readonly weight: number;
}

/** A bucket that refills at a constant rate. */
export interface LevelDescription extends CommonFields {
  readonly shape: 'level';
  /** The tokens available now, with fractions; negative after an overcharge. */
  readonly tokens: number;
  readonly msPerToken: number;
  /** The newest charge, and the tokens it left. Undefined for a bucket that was never charged. */
  readonly charged: { readonly atMs: number; readonly tokens: number } | undefined;
}

export type KeyDescription = EntriesDescription | WindowsDescription | LevelDescription;

/** How to explain an algorithm and the states of its keys. */
export interface AlgorithmInfo {
  /** A description of the algorithm in one line. */
  readonly summary: string;
  readonly shape: KeyDescription['shape'];
  /**
   * Describes a key at a time that is not before its inspection, as if nothing was charged since.
   * `state` is undefined for a new key. `sumText` and `freesText` describe a call of `cost`.
   */
  describe(
    state: DescribedState | undefined,
    params: LimitParams,
    nowMs: number,
    cost: number,
  ): KeyDescription;
}

/** Returns the fields of `CommonFields` that depend only on the used cost and the capacity. */
export function usage(used: number, { capacity }: LimitParams) {
  return { used, limit: capacity, remaining: Math.max(capacity - used, 0) };
}

/** Returns text such as `29 of 30 used`. */
export const usedOf = (used: number, { capacity }: LimitParams): string =>
  `${countText(used)} of ${countText(capacity)} used`;

/** Returns text such as `29 + 1 = 30 <= 30`. */
export const sumOf = (used: number, cost: number, { limit }: LimitParams): string =>
  `${used} + ${cost} = ${used + cost} ${used + cost <= limit ? '<=' : '>'} ${limit}`;

/** Returns the start of the window that contains `timeMs`, for windows aligned to the clock. */
export const windowStart = (windowMs: number, timeMs: number): number =>
  Math.floor(timeMs / windowMs) * windowMs;

/** Rounds a cost up to three decimals, so that a cost above the limit is not shown as equal. */
export const roundedUp = (value: number): number => Math.ceil(1000 * value) / 1000;
/** Rounds tokens down to three decimals, so that too few tokens are not shown as enough. */
export const roundedDown = (value: number): number => Math.floor(1000 * value) / 1000;
