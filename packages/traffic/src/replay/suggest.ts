/**
 * Suggests a limit for the traffic of a log, in two passes. The first pass finds the peak of each
 * client: its highest cost in any sliding window, for several window lengths at once. A limit
 * denies the clients whose peak exceeds it. The second pass replays the requests of these clients
 * through the library with a few limits, and counts the requests that each limit denies.
 */
import { definePolicy, type Policy, type SyncPolicyTable } from 'sluice';
import type { Entry } from '../entry.ts';
import { ClientTable } from './client-table.ts';
import {
  type CurvePoint,
  clientsDeniedBy,
  curveOf,
  kneeOf,
  type Peaks,
  roundUp,
  sampleCurve,
} from './knee.ts';
import { costOf, exceedsCapacity, unboundedStore } from './replay.ts';
import { WindowCounts } from './window-counts.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

export const SUGGESTED_WINDOWS_MS: readonly number[] = [
  ...[1, 10].map((count) => count * SECOND_MS),
  ...[1, 5, 15].map((count) => count * MINUTE_MS),
  ...[1, 6, 24].map((count) => count * HOUR_MS),
];

/** Default window of the suggested policy. */
const DEFAULT_WINDOW_MS = MINUTE_MS;

/**
 * The proposed limit is this multiple of the knee (see `knee.ts`), as headroom for traffic that the
 * log does not show. If it denies more than 1 % of the clients, the proposed limit is higher.
 */
export const HEAD_ROOM = 2;

/** The proposed limit denies at most this share of the clients. */
export const DENIED_SHARE = 0.01;

/**
 * For each of these shares, the second pass tries the lowest limit that denies at most this share
 * of the clients.
 */
const SHARES = [0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0];

/**
 * Maximum number of request times in memory. If there are more, the longest windows are omitted.
 */
const MAX_HELD = 2 ** 24;

export interface SuggestOptions {
  /** Returns the key of a request. Each key has its own limit. */
  readonly keyOf: (entry: Entry) => string;
  /** Window length. Default: all of `SUGGESTED_WINDOWS_MS` that are shorter than the log. */
  readonly windowMs?: number | undefined;
  readonly mostHeld?: number | undefined;
}

export interface LimitReport {
  readonly limit: number;
  readonly clients: number;
  readonly clientShare: number;
  readonly deniedRequests: number;
  readonly requestShare: number;
  /** Only if the log has costs. */
  readonly deniedCost?: number;
  readonly costShare?: number;
}

export interface WindowReport {
  readonly windowMs: number;
  /** The highest peak of any client. */
  readonly peak: number;
  readonly knee: number;
  readonly proposed: number;
  /** The limits that were tried, lowest first. */
  readonly limits: readonly LimitReport[];
  /** Limits with the number of clients that each limit denies, at most 240. */
  readonly curve: readonly CurvePoint[];
}

export interface SuggestResult {
  readonly kind: 'suggest';
  readonly requests: number;
  readonly clients: number;
  readonly firstMs: number;
  readonly lastMs: number;
  readonly windows: readonly WindowReport[];
  /** Only if the log has costs; limits then count cost. */
  readonly costs?: {
    readonly requested: number;
    /** The highest cost of one request. Every lower limit denies this request. */
    readonly highest: number;
  };
  /** Windows omitted because of memory. */
  readonly leftOutMs: readonly number[];
  /** The suggested policy, and the number of clients that it would have denied. */
  readonly proposed: {
    readonly limit: number;
    readonly windowMs: number;
    readonly clients: number;
  };
}

/** One limit that is tried. */
interface Trial {
  readonly limit: number;
  readonly policy: Policy;
  readonly table: SyncPolicyTable;
  denied: number;
  deniedCost: number;
}

/** The peaks for one window length, and the limits to try. */
interface WindowSurvey {
  readonly windowMs: number;
  /** Index of the window in `WindowCounts`. */
  readonly window: number;
  /** The peaks of all clients, ascending. */
  readonly sorted: Peaks;
  readonly curve: readonly CurvePoint[];
  readonly knee: number;
  readonly proposed: number;
  /** Trials, ascending by limit. */
  readonly trials: readonly Trial[];
}

export class Suggester {
  readonly #options: SuggestOptions;
  readonly #table = new ClientTable<never>([]);
  readonly #counts: WindowCounts;
  #requests = 0;
  #firstMs: number | undefined = undefined;
  #lastMs = 0;
  #hasCosts = false;
  #costRequested = 0;
  #highestCost = 0;
  #nowMs = Number.NEGATIVE_INFINITY;
  #surveys: readonly WindowSurvey[] = [];

  constructor(options: SuggestOptions) {
    this.#options = options;
    const { windowMs, mostHeld = MAX_HELD } = options;
    const windowsMs = windowMs === undefined ? SUGGESTED_WINDOWS_MS : [windowMs];
    this.#counts = new WindowCounts(windowsMs, mostHeld);
  }

  /** First pass: counts the next requests, in order of time. */
  survey(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
      this.#firstMs ??= this.#nowMs;
      this.#lastMs = this.#nowMs;
      this.#requests++;
      const row = this.#table.rowOf(this.#options.keyOf(entry));
      const cost = costOf(entry);
      if (entry.cost !== undefined) this.#hasCosts = true;
      this.#costRequested += cost;
      this.#highestCost = Math.max(this.#highestCost, cost);
      this.#counts.add(row, this.#nowMs, cost);
    }
  }

  /** Time from the first to the last request. */
  get spanMs(): number {
    return this.#firstMs === undefined ? 0 : this.#lastMs - this.#firstMs;
  }

  /**
   * After the first pass: chooses the limits to try. Returns false if no window is shorter than the
   * log.
   */
  choose(): boolean {
    this.#surveys = this.#counts.countedMs
      .map((windowMs, window) => ({ windowMs, window }))
      .filter(({ windowMs }) => windowMs < this.spanMs)
      .map(({ windowMs, window }) => this.#surveyOf(windowMs, window));
    this.#nowMs = Number.NEGATIVE_INFINITY;
    return this.#surveys.length > 0;
  }

  #surveyOf(windowMs: number, window: number): WindowSurvey {
    const { size } = this.#table;
    const sorted = this.#counts.isWide ? new Float64Array(size) : new Uint32Array(size);
    for (let row = 0; row < sorted.length; row++) sorted[row] = this.#counts.most(row, window);
    sorted.sort();
    const points = curveOf(sorted);
    const curve = sampleCurve(points);
    const knee = kneeOf(points, sorted.length);
    const wanted = roundUp(Math.max(HEAD_ROOM * knee, lowestLimit(sorted, DENIED_SHARE)));
    const most = largestLimit(windowMs);
    const proposed = Math.min(most, wanted);
    const sparing = SHARES.map((share) => lowestLimit(sorted, share));
    const all = [...new Set([...sparing, knee, proposed])].filter((limit) => limit <= most);
    const limits = all.sort((a, b) => a - b);
    const trials = limits.map((limit) => {
      const policy = definePolicy('trial', { limit, window: windowMs });
      return { limit, policy, table: unboundedStore().open(policy), denied: 0, deniedCost: 0 };
    });
    return { windowMs, window, sorted, curve, knee, proposed, trials };
  }

  /** Second pass: replays the requests of the log again, in order of time. */
  tryLimits(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
      const key = this.#options.keyOf(entry);
      const row = this.#table.rowOf(key);
      const cost = costOf(entry);
      for (const { window, trials } of this.#surveys) {
        const most = this.#counts.most(row, window);
        for (const trial of trials) {
          if (trial.limit >= most) break;
          const { policy, table } = trial;
          const params = policy.params!;
          const isAdmitted =
            !exceedsCapacity(cost, params) &&
            table.takeSync(params, key, cost, this.#nowMs).allowed;
          if (isAdmitted) continue;
          trial.denied++;
          trial.deniedCost += cost;
        }
      }
    }
  }

  result(): SuggestResult {
    const windows = this.#surveys.map((each) => this.#report(each));
    const usual = windows.findLast(({ windowMs }) => windowMs <= DEFAULT_WINDOW_MS) ?? windows[0];
    return {
      kind: 'suggest',
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs ?? 0,
      lastMs: this.#lastMs,
      windows,
      ...(this.#hasCosts && {
        costs: { requested: this.#costRequested, highest: this.#highestCost },
      }),
      leftOutMs: this.#counts.windowsMs.slice(this.#counts.countedMs.length),
      proposed: {
        limit: usual.proposed,
        windowMs: usual.windowMs,
        clients: usual.limits.find(({ limit }) => limit === usual.proposed)!.clients,
      },
    };
  }

  #report({ windowMs, sorted, curve, knee, proposed, trials }: WindowSurvey): WindowReport {
    const limits = trials.map(({ limit, denied, deniedCost }) => {
      const clients = clientsDeniedBy(sorted, limit);
      return {
        limit,
        clients,
        clientShare: clients / sorted.length,
        deniedRequests: denied,
        requestShare: denied / this.#requests,
        ...(this.#hasCosts && { deniedCost, costShare: deniedCost / this.#costRequested }),
      };
    });
    return { windowMs, peak: sorted[sorted.length - 1], knee, proposed, limits, curve };
  }
}

/** Returns the lowest limit that denies at most this share of the clients. */
const lowestLimit = (sorted: Peaks, share: number): number =>
  sorted[sorted.length - 1 - Math.floor(share * sorted.length)];

/** Returns the highest valid limit: limit times window must be a safe integer. */
const largestLimit = (windowMs: number): number => Math.floor(Number.MAX_SAFE_INTEGER / windowMs);
