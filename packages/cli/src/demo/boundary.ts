/**
 * Shows on the demo service that a fixed window admits up to twice the limit around a window
 * boundary, while a sliding log never exceeds the limit. Sends a burst of `limit` requests before
 * and after a boundary to both algorithms, then retries a denied request after its `retryAfterMs`.
 */
import { Agent, request as requestHttp } from 'node:http';
import { systemClock } from 'sluice';
import { pause } from '../pause.ts';
import { ALGORITHMS, COMPARED_LIMIT, type ComparedAlgorithm } from './service.ts';

/** Time from the first burst to the boundary. Each further attempt adds `LEAD_STEP_MS`. */
const FIRST_LEAD_MS = 600;
const LEAD_STEP_MS = 200;
const MAX_ATTEMPTS = 4;
const TIMEOUT_MS = 10_000;

export interface BoundaryRun {
  readonly algorithm: ComparedAlgorithm;
  /** Requests sent before and after the boundary. */
  readonly sent: [number, number];
  /** Requests admitted before and after the boundary. */
  readonly passed: [number, number];
  /** Time of the first decision of each burst, relative to the boundary. */
  readonly atMs: [number | undefined, number | undefined];
  /** `retryAfterMs` of the first denied request. */
  retryAfterMs: number | undefined;
  /** Time of the retry. */
  retryAtMs: number;
  /** Whether the retry was allowed. */
  retryAllowed: boolean | undefined;
}

export type Phase = 'waiting' | 'bursts' | 'retrying' | 'over';

export interface BoundaryState {
  phase: Phase;
  boundaryMs: number;
  runs: readonly BoundaryRun[];
}

const newRuns = (): readonly BoundaryRun[] =>
  ALGORITHMS.map((algorithm) => ({
    algorithm,
    sent: [0, 0],
    passed: [0, 0],
    atMs: [undefined, undefined],
    retryAfterMs: undefined,
    retryAtMs: 0,
    retryAllowed: undefined,
  }));

interface Decision {
  readonly allowed: boolean;
  readonly retryAfterMs: number;
  readonly atMs: number;
}

export class BoundaryDemo {
  readonly state: BoundaryState = { phase: 'waiting', boundaryMs: 0, runs: newRuns() };
  readonly #url: URL;
  readonly #signal: AbortSignal;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });

  constructor(url: string, signal: AbortSignal) {
    this.#url = new URL('/v1/check', url);
    this.#signal = signal;
  }

  /** True if the first burst was decided before the boundary and the second burst after it. */
  isShown = false;

  /** Resolves when an attempt has succeeded, all attempts have failed, or the signal aborts. */
  async run(): Promise<void> {
    const { state } = this;
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS && !this.#signal.aborted; attempt++) {
        this.isShown = await this.#bursts(`caller-${attempt}`, attempt);
        if (!this.isShown) continue;
        await this.#retry(`caller-${attempt}`);
        break;
      }
    } catch (error) {
      // The user has stopped the demo.
      if (this.#signal.aborted) return;
      // An `AbortError` is a timeout: the machine is too slow. Any other error is a bug.
      this.isShown = false;
      if ((error as Error).name !== 'AbortError') throw error;
    } finally {
      state.phase = 'over';
      this.#agent.destroy();
    }
  }

  /**
   * Sends both bursts. Resolves to true if all calls of the first burst were decided before the
   * boundary, and all calls of the second burst within half a window after it.
   */
  async #bursts(key: string, attempt: number): Promise<boolean> {
    const { state } = this;
    const { windowMs } = COMPARED_LIMIT;
    const leadMs = FIRST_LEAD_MS + attempt * LEAD_STEP_MS;
    const nowMs = systemClock.now();
    state.boundaryMs = Math.ceil((nowMs + leadMs) / windowMs) * windowMs;
    state.runs = newRuns();
    state.phase = 'waiting';
    await pause(state.boundaryMs - leadMs - nowMs, this.#signal);
    state.phase = 'bursts';
    const isBefore = await this.#burst(key, 0);
    await pause(state.boundaryMs + FIRST_LEAD_MS - systemClock.now(), this.#signal);
    const isWithin = await this.#burst(key, 1);
    return isBefore && isWithin;
  }

  async #burst(key: string, side: 0 | 1): Promise<boolean> {
    const { boundaryMs, runs } = this.state;
    const sendOne = async (run: BoundaryRun): Promise<boolean> => {
      if (this.#signal.aborted) return false;
      const decision = await this.#check(run.algorithm, key);
      const sinceMs = decision.atMs - boundaryMs;
      run.sent[side]++;
      run.atMs[side] ??= sinceMs;
      if (decision.allowed) run.passed[side]++;
      else if (run.retryAfterMs === undefined) {
        run.retryAfterMs = decision.retryAfterMs;
        run.retryAtMs = decision.atMs + decision.retryAfterMs;
      }
      return side === 0 ? sinceMs < 0 : sinceMs >= 0 && sinceMs < COMPARED_LIMIT.windowMs / 2;
    };
    const all: Promise<boolean>[] = [];
    for (let call = 0; call < COMPARED_LIMIT.limit; call++) all.push(...runs.map(sendOne));
    return (await Promise.all(all)).every(Boolean);
  }

  async #retry(key: string): Promise<void> {
    const { runs } = this.state;
    this.state.phase = 'retrying';
    for (const run of runs.filter(({ retryAfterMs }) => retryAfterMs !== undefined)) {
      await pause(run.retryAtMs - systemClock.now(), this.#signal);
      if (this.#signal.aborted) return;
      run.retryAllowed = (await this.#check(run.algorithm, key)).allowed;
    }
  }

  #check(policy: string, key: string): Promise<Decision> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const options = { method: 'POST', agent: this.#agent, signal };
    return new Promise((resolve, reject) => {
      const sent = requestHttp(this.#url, options, async (response) => {
        try {
          let text = '';
          for await (const piece of response.setEncoding('utf8')) text += piece;
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
      sent.on('error', reject);
      sent.end(JSON.stringify({ policy, key }));
    });
  }
}
