/** Animation that moves the window over the traffic. */
import { eachFrame, nowMs } from '../clock.ts';

const PLAY_MS = 12_000;
const MIN_FRAME_MS = 33;
/** Time between frames if the user prefers reduced motion. */
const STEP_MS = 1000;

export class Player {
  readonly #moved: (part: number) => void;
  #cancel: (() => void) | undefined = undefined;

  /** Calls `moved` with the progress from 0 to 1. At 1, the animation has ended. */
  constructor(moved: (part: number) => void) {
    this.#moved = moved;
  }

  get isPlaying(): boolean {
    return this.#cancel !== undefined;
  }

  play(fromPart: number): void {
    this.stop();
    const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const beginMs = nowMs() - fromPart * PLAY_MS;
    let drawnMs = 0;
    this.#cancel = eachFrame(() => {
      const now = nowMs();
      if (now - drawnMs < (isStill ? STEP_MS : MIN_FRAME_MS)) return;
      drawnMs = now;
      const part = Math.min(1, (now - beginMs) / PLAY_MS);
      if (part === 1) this.stop();
      this.#moved(part);
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
