/**
 * The boundary, live: a full burst on each side of a boundary of the fixed windows, asked of the
 * service through both algorithms. Who was told to come back comes back then.
 */
import { Agent, request as requestHttp } from 'node:http';
import { systemClock } from 'sluice';
import { pause } from '../pause.ts';
import { ALGORITHMS, COMPARED, type Compared } from './service.ts';

/** How far from the boundary the bursts begin. If the machine is slow, further. */
const FIRST_LEAD_MS = 600;
const LEAD_STEP_MS = 200;
const MAX_ATTEMPTS = 4;
const PATIENCE_MS = 10_000;

export interface BoundaryRun {
  readonly algorithm: Compared;
  /** Before the boundary and after. */
  readonly sent: [number, number];
  readonly passed: [number, number];
  /** When the bursts were decided, since the boundary. */
  readonly atMs: [number | undefined, number | undefined];
  /** What the first one that was denied was told, and when that is on the clock. */
  retryAfterMs: number | undefined;
  backMs: number;
  /** Whether it passed when it came back then. */
  cameBack: boolean | undefined;
}

export type Phase = 'waiting' | 'bursts' | 'coming back' | 'over';

export interface BoundaryState {
  phase: Phase;
  /** The boundary that it is about, on the clock. */
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
    backMs: 0,
    cameBack: undefined,
  }));

interface Answer {
  readonly allowed: boolean;
  readonly retryAfterMs: number;
  readonly atMs: number;
}

export class BoundaryProof {
  readonly state: BoundaryState = { phase: 'waiting', boundaryMs: 0, runs: newRuns() };
  readonly #url: URL;
  readonly #signal: AbortSignal;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 16 });

  constructor(url: string, signal: AbortSignal) {
    this.#url = new URL('/v1/check', url);
    this.#signal = signal;
  }

  /** Whether it could be shown: both bursts were sent, and each was decided on its side. */
  isShown = false;

  /** Until it is shown, or stopped. */
  async run(): Promise<void> {
    const { state } = this;
    try {
      for (let attempt = 0; attempt < MAX_ATTEMPTS && !this.#signal.aborted; attempt++) {
        this.isShown = await this.#bursts(`caller-${attempt}`, attempt);
        if (!this.isShown) continue;
        await this.#comeBack(`caller-${attempt}`);
        break;
      }
    } catch (error) {
      // Whoever is stopped has been interrupted, and nothing is wrong.
      if (this.#signal.aborted) return;
      // A machine that takes so long cannot show it, which is told; all else is a mistake.
      this.isShown = false;
      if ((error as Error).name !== 'AbortError') throw error;
    } finally {
      state.phase = 'over';
      this.#agent.destroy();
    }
  }

  /** Whether each burst was decided on its side, which a machine that stalls may not manage. */
  async #bursts(key: string, attempt: number): Promise<boolean> {
    const { state } = this;
    const { windowMs } = COMPARED;
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
    const one = async (run: BoundaryRun): Promise<boolean> => {
      if (this.#signal.aborted) return false;
      const answer = await this.#ask(run.algorithm, key);
      const sinceMs = answer.atMs - boundaryMs;
      run.sent[side]++;
      run.atMs[side] ??= sinceMs;
      if (answer.allowed) run.passed[side]++;
      else if (run.retryAfterMs === undefined) {
        run.retryAfterMs = answer.retryAfterMs;
        run.backMs = answer.atMs + answer.retryAfterMs;
      }
      return side === 0 ? sinceMs < 0 : sinceMs >= 0 && sinceMs < COMPARED.windowMs / 2;
    };
    const all: Promise<boolean>[] = [];
    for (let call = 0; call < COMPARED.limit; call++) all.push(...runs.map(one));
    return (await Promise.all(all)).every(Boolean);
  }

  async #comeBack(key: string): Promise<void> {
    const { runs } = this.state;
    this.state.phase = 'coming back';
    for (const run of runs.filter(({ retryAfterMs }) => retryAfterMs !== undefined)) {
      await pause(run.backMs - systemClock.now(), this.#signal);
      if (this.#signal.aborted) return;
      run.cameBack = (await this.#ask(run.algorithm, key)).allowed;
    }
  }

  #ask(policy: string, key: string): Promise<Answer> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(PATIENCE_MS)]);
    const options = { method: 'POST', agent: this.#agent, signal };
    return new Promise((resolve, reject) => {
      const sent = requestHttp(this.#url, options, async (answer) => {
        try {
          let text = '';
          for await (const piece of answer.setEncoding('utf8')) text += piece;
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
