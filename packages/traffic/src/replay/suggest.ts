/**
 * Which limit fits the traffic of a log. In a first pass the most that each client asks for in any
 * window of the last W is found, for all W at once: whoever asks for more than a limit is touched
 * by it. In a second pass the engine tells, for a few limits and those clients only, how many
 * requests each limit denies.
 */
import { definePolicy, type Policy, type SyncPolicyTable } from 'sluice';
import type { Entry } from '../entry.ts';
import { ClientTable } from './client-table.ts';
import { type CurvePoint, curveOf, kneeOf, type Peaks, roundedUp, touchedBy } from './knee.ts';
import { HEAVIEST_SHARE } from './plan.ts';
import { costOf, isTooDear, roomyStore } from './replay.ts';
import { WindowCounts } from './window-counts.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** From a second to a day. */
export const SUGGESTED_WINDOWS_MS: readonly number[] = [
  ...[1, 10].map((count) => count * SECOND_MS),
  ...[1, 5, 15].map((count) => count * MINUTE_MS),
  ...[1, 6, 24].map((count) => count * HOUR_MS),
];

/** Which window a policy is made for if nobody says. */
const USUAL_WINDOW_MS = MINUTE_MS;

/**
 * How many times the knee is proposed: what was seen on one day is not all that can come. It is
 * more if that would touch more than the most demanding 1 % of the clients.
 */
export const HEAD_ROOM = 2;

/** Parts of the clients for which the limit is told that touches no more of them. */
const SHARES = [0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0];

/** So many times of requests are held at once; with more the longest windows are left out. */
const MAX_HELD = 2 ** 24;

export interface SuggestOptions {
  /** Whom a request counts for. */
  readonly keyOf: (entry: Entry) => string;
  /** Default: those from a second to a day that are shorter than the log. */
  readonly windowMs?: number | undefined;
  readonly mostHeld?: number | undefined;
}

export interface LimitReport {
  readonly limit: number;
  readonly clients: number;
  readonly clientShare: number;
  readonly deniedRequests: number;
  readonly requestShare: number;
  /** What those cost, and what part of all that is; only if the log says costs. */
  readonly deniedCost?: number;
  readonly costShare?: number;
}

export interface WindowReport {
  readonly windowMs: number;
  /** The most that any client asks for in a window. */
  readonly mostAsked: number;
  readonly knee: number;
  readonly proposed: number;
  /** The limits whose effect was tried, the smallest first. */
  readonly limits: readonly LimitReport[];
  /** Limits and how many clients they touch, at most 240 points. */
  readonly curve: readonly CurvePoint[];
}

export interface SuggestResult {
  readonly kind: 'suggest';
  readonly requests: number;
  readonly clients: number;
  readonly firstMs: number;
  readonly lastMs: number;
  readonly windows: readonly WindowReport[];
  /** Only if the log says what requests cost: then all limits are in units of that. */
  readonly costs?: {
    readonly asked: number;
    /** The most that one request costs: a lower limit never lets it through. */
    readonly dearest: number;
  };
  /** Windows that would have needed more memory than there is for it. */
  readonly leftOutMs: readonly number[];
  /** The one that a policy is made of. */
  readonly proposed: { readonly limit: number; readonly windowMs: number };
}

/** One limit whose effect is tried. */
interface Trial {
  readonly limit: number;
  readonly policy: Policy;
  readonly space: SyncPolicyTable;
  denied: number;
  deniedCost: number;
}

/** One window: who asks for how much in it, and the limits that are tried on it. */
interface Surveyed {
  readonly windowMs: number;
  /** Its place among the counts. */
  readonly window: number;
  /** What each client asks for at the most, the smallest first. */
  readonly sorted: Peaks;
  readonly curve: readonly CurvePoint[];
  readonly knee: number;
  readonly proposed: number;
  /** The smallest limit first. */
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
  #costAsked = 0;
  #dearest = 0;
  #nowMs = Number.NEGATIVE_INFINITY;
  #surveyed: readonly Surveyed[] = [];

  constructor(options: SuggestOptions) {
    this.#options = options;
    const { windowMs, mostHeld = MAX_HELD } = options;
    const windowsMs = windowMs === undefined ? SUGGESTED_WINDOWS_MS : [windowMs];
    this.#counts = new WindowCounts(windowsMs, mostHeld);
  }

  /** The first pass: takes the next requests, in the order of their times. */
  survey(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
      this.#firstMs ??= this.#nowMs;
      this.#lastMs = this.#nowMs;
      this.#requests++;
      const row = this.#table.rowOf(this.#options.keyOf(entry));
      const cost = costOf(entry);
      if (entry.cost !== undefined) this.#hasCosts = true;
      this.#costAsked += cost;
      this.#dearest = Math.max(this.#dearest, cost);
      this.#counts.add(row, this.#nowMs, cost);
    }
  }

  /** How long the log is. */
  get spanMs(): number {
    return this.#firstMs === undefined ? 0 : this.#lastMs - this.#firstMs;
  }

  /** After the first pass: the limits to be tried. Answers whether any window is short enough. */
  choose(): boolean {
    this.#surveyed = this.#counts.countedMs
      .map((windowMs, window) => ({ windowMs, window }))
      .filter(({ windowMs }) => windowMs < this.spanMs)
      .map(({ windowMs, window }) => this.#surveyOf(windowMs, window));
    this.#nowMs = Number.NEGATIVE_INFINITY;
    return this.#surveyed.length > 0;
  }

  #surveyOf(windowMs: number, window: number): Surveyed {
    const { size } = this.#table;
    const sorted = this.#counts.isWide ? new Float64Array(size) : new Uint32Array(size);
    for (let row = 0; row < sorted.length; row++) sorted[row] = this.#counts.most(row, window);
    sorted.sort();
    const curve = curveOf(sorted);
    const knee = kneeOf(curve, sorted.length);
    const wanted = roundedUp(Math.max(HEAD_ROOM * knee, ordinaryMost(sorted)));
    const most = largestLimit(windowMs);
    const proposed = Math.min(most, wanted);
    const sparing = SHARES.map(
      (share) => sorted[sorted.length - 1 - Math.floor(share * sorted.length)],
    );
    const all = [...new Set([...sparing, knee, proposed])].filter((limit) => limit <= most);
    const limits = all.sort((a, b) => a - b);
    const trials = limits.map((limit) => {
      const policy = definePolicy('trial', { limit, window: windowMs });
      return { limit, policy, space: roomyStore().open(policy), denied: 0, deniedCost: 0 };
    });
    return { windowMs, window, sorted, curve, knee, proposed, trials };
  }

  /** The second pass: takes the same requests again. */
  weigh(entries: readonly Entry[]): void {
    for (const entry of entries) {
      this.#nowMs = Math.max(this.#nowMs, entry.timeMs);
      const key = this.#options.keyOf(entry);
      const row = this.#table.rowOf(key);
      const cost = costOf(entry);
      for (const { window, trials } of this.#surveyed) {
        const most = this.#counts.most(row, window);
        for (const trial of trials) {
          if (trial.limit >= most) break;
          const { policy, space } = trial;
          const params = policy.params!;
          const isIn =
            !isTooDear(cost, params) && space.takeSync(params, key, cost, this.#nowMs).allowed;
          if (isIn) continue;
          trial.denied++;
          trial.deniedCost += cost;
        }
      }
    }
  }

  result(): SuggestResult {
    const windows = this.#surveyed.map((each) => this.#report(each));
    const usual = windows.findLast(({ windowMs }) => windowMs <= USUAL_WINDOW_MS) ?? windows[0];
    return {
      kind: 'suggest',
      requests: this.#requests,
      clients: this.#table.size,
      firstMs: this.#firstMs ?? 0,
      lastMs: this.#lastMs,
      windows,
      ...(this.#hasCosts && { costs: { asked: this.#costAsked, dearest: this.#dearest } }),
      leftOutMs: this.#counts.windowsMs.slice(this.#counts.countedMs.length),
      proposed: { limit: usual.proposed, windowMs: usual.windowMs },
    };
  }

  #report({ windowMs, sorted, curve, knee, proposed, trials }: Surveyed): WindowReport {
    const limits = trials.map(({ limit, denied, deniedCost }) => {
      const clients = touchedBy(sorted, limit);
      return {
        limit,
        clients,
        clientShare: clients / sorted.length,
        deniedRequests: denied,
        requestShare: denied / this.#requests,
        ...(this.#hasCosts && { deniedCost, costShare: deniedCost / this.#costAsked }),
      };
    });
    return { windowMs, mostAsked: sorted[sorted.length - 1], knee, proposed, limits, curve };
  }
}

/** What all but the most demanding 1 % ask for at the most; of a few clients, all but one. */
const ordinaryMost = (sorted: Peaks): number =>
  sorted[sorted.length - 1 - Math.ceil(HEAVIEST_SHARE * sorted.length)] ?? 0;

/** More than that cannot be a policy's limit, as a limit times its window has to be exact. */
const largestLimit = (windowMs: number): number => Math.floor(Number.MAX_SAFE_INTEGER / windowMs);
