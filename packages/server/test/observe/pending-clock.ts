/** A clock that stands still, and knows how many still wait to be woken. */
import { ManualClock } from 'sluice';

export class PendingClock extends ManualClock {
  pending = 0;
  /** By how much the wall clock was set forward; who waits, waits as long as before. */
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
