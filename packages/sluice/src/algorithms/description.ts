/**
 * Describes the state of one key: the numbers that a picture or a table needs, and the sentences
 * that the command line, the reports and the dashboard share.
 */
import { countText } from '../format.ts';
import type { LimitParams } from './algorithm.ts';

/** The part of an inspected key that a description needs; a `KeyState` has all of it. */
export interface DescribedState {
  readonly cells: readonly number[];
  /** What counted when the key was inspected. */
  readonly used: number;
  /** The newest entries of a log, oldest first. */
  readonly entries: readonly LogEntry[];
  /** How many entries count, listed or not. Default: all are listed. */
  readonly entryCount?: number | undefined;
}

export interface LogEntry {
  readonly atMs: number;
  readonly cost: number;
}

/** The fields that all algorithms have. Texts are plain English without a final period. */
interface Common {
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
   * 120 ms`. Empty if nothing is used, or if the oldest entry is not among those listed.
   */
  readonly freesText: string;
}

/** A log: entries that count until they are one window old. */
export interface EntriesDescription extends Common {
  readonly shape: 'entries';
  /** The listed entries that still count, oldest first. */
  readonly entries: readonly LogEntry[];
  /** An entry holds the admissions from `atMs - entrySpanMs + 1` to `atMs`. */
  readonly entrySpanMs: number;
}

/** Windows aligned to the clock, oldest first: the current one, or also the previous one. */
export interface WindowsDescription extends Common {
  readonly shape: 'windows';
  readonly windows: readonly CountedWindow[];
}

export interface CountedWindow {
  readonly startMs: number;
  readonly cost: number;
  /** The part of `cost` that counts, from 0 to 1. */
  readonly weight: number;
}

/** A bucket that refills at a constant rate. */
export interface LevelDescription extends Common {
  readonly shape: 'level';
  /** The tokens available now, with fractions; negative after an overcharge. */
  readonly tokens: number;
  readonly msPerToken: number;
  /** The newest charge, and the tokens it left. Undefined for a bucket that was never charged. */
  readonly charged: { readonly atMs: number; readonly tokens: number } | undefined;
}

export type KeyDescription = EntriesDescription | WindowsDescription | LevelDescription;

/** What readers need to know of an algorithm, besides how it decides. */
export interface AlgorithmInfo {
  /** One line of documentation. */
  readonly summary: string;
  readonly shape: KeyDescription['shape'];
  /**
   * Describes a key at a time that is not before its inspection, as if nothing was charged since.
   * `state` is undefined for a new key. `cost` is that of the call in `sumText` and `freesText`.
   */
  describe(
    state: DescribedState | undefined,
    params: LimitParams,
    nowMs: number,
    cost: number,
  ): KeyDescription;
}

/** The fields of `Common` that follow from how much is used. */
export function usage(used: number, { capacity }: LimitParams) {
  return { used, limit: capacity, remaining: Math.max(capacity - used, 0) };
}

/** `29 of 30 used` */
export const usedOf = (used: number, { capacity }: LimitParams): string =>
  `${countText(used)} of ${countText(capacity)} used`;

/** `29 + 1 = 30 <= 30` */
export const sumOf = (used: number, cost: number, { limit }: LimitParams): string =>
  `${used} + ${cost} = ${used + cost} ${used + cost <= limit ? '<=' : '>'} ${limit}`;

/** When the window that contains `timeMs` began, for windows aligned to the clock. */
export const windowStart = (windowMs: number, timeMs: number): number =>
  Math.floor(timeMs / windowMs) * windowMs;

/** To three decimals, rounded so that too much never reads as enough. */
export const roundedUp = (value: number): number => Math.ceil(1000 * value) / 1000;
export const roundedDown = (value: number): number => Math.floor(1000 * value) / 1000;
