/** Plays the animation that moves the window over the traffic. */
import { eachFrame, nowMs } from '../clock.ts';

const DURATION_MS = 12_000;
const FRAME_MS = 33;
/** Time between frames if the user prefers reduced motion. */
const REDUCED_MOTION_FRAME_MS = 1000;

export class Player {
  readonly #onFrame: (progress: number) => void;
  #cancel: (() => void) | undefined = undefined;

  /** Calls `onFrame` with the progress from 0 to 1. At 1, the animation has ended. */
  constructor(onFrame: (progress: number) => void) {
    this.#onFrame = onFrame;
  }

  get isPlaying(): boolean {
    return this.#cancel !== undefined;
  }

  play(fromProgress: number): void {
    this.stop();
    const isReduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const frameMs = isReduced ? REDUCED_MOTION_FRAME_MS : FRAME_MS;
    const beginMs = nowMs() - fromProgress * DURATION_MS;
    let drawnMs = 0;
    this.#cancel = eachFrame(() => {
      const now = nowMs();
      if (now - drawnMs < frameMs) return;
      drawnMs = now;
      const progress = Math.min(1, (now - beginMs) / DURATION_MS);
      if (progress === 1) this.stop();
      this.#onFrame(progress);
    });
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
