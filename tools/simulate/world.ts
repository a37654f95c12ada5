/** True time, and the events that are due. Only the world knows the true time. */
import { byTime, Heap, type TimedEntry } from '../../packages/sluice/src/heap.ts';

interface Event extends TimedEntry {
  readonly run: () => void;
}

export class World {
  nowMs = 0;
  readonly #events = new Heap<Event>(byTime);
  #hasSettled = false;

  /** Calls `run` at a true time. Returns a function that cancels the call. */
  at(dueMs: number, run: () => void): () => void {
    const event = { dueMs: Math.max(dueMs, this.nowMs), run };
    this.#events.add(event);
    return () => this.#events.delete(event);
  }

  after(delayMs: number, run: () => void): () => void {
    return this.at(this.nowMs + delayMs, run);
  }

  /** Must be called when a promise is settled, so that its reactions run before the next event. */
  settled(): void {
    this.#hasSettled = true;
  }

  /** Runs all events until a true time. */
  async runUntil(endMs: number): Promise<void> {
    for (let event = this.#events.first; event; event = this.#events.first) {
      if (event.dueMs > endMs) return;
      this.#events.delete(event);
      this.nowMs = event.dueMs;
      event.run();
      if (!this.#hasSettled) continue;
      this.#hasSettled = false;
      // A reaction may have further reactions.
      for (let hop = 0; hop < 3; hop++) await undefined;
    }
  }
}
