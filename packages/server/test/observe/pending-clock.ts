/** A manual clock that counts its pending timers. */
import { ManualClock } from 'sluice';

export class PendingClock extends ManualClock {
  pending = 0;
  /** Offset of the wall clock. Pending timers are not affected. */
  offsetMs = 0;

  override now(): number {
    return super.now() + this.offsetMs;
  }

  override schedule(delayMs: number, wake: () => void): () => void {
    this.pending++;
    let isOver = false;
    const end = (): void => {
      if (!isOver) this.pending--;
      isOver = true;
    };
    const cancel = super.schedule(delayMs, () => {
      end();
      wake();
    });
    return () => {
      end();
      cancel();
    };
  }
}
