/** A call of `acquire` that waits. The table in waiters.ts lists the transitions of its states. */
import type { Decision } from '../decision.ts';
import type { TimedEntry } from '../heap.ts';
import type { Check } from '../store.ts';
import type { KeyQueue, QueueNode } from './key-queue.ts';

export interface Waiter extends TimedEntry {
  readonly check: Check;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decision: Decision) => void;
  readonly reject: (reason: unknown) => void;
  readonly queues: readonly KeyQueue<Waiter>[];
  /** The nodes of this waiter in its queues, in the list of all waiters and of its signal. */
  places: readonly QueueNode<Waiter>[];
  state: 'queued' | 'deciding' | 'sleeping' | 'done';
  /**
   * Whether to repeat the check at once if the store denies it: one of its keys was refunded,
   * settled, released, reset or unblocked while the store was deciding.
   */
  retryAtOnce?: boolean;
  /** The time at which the check is admitted according to its last denial. */
  predictedMs?: number;
}

/** Whether a waiter is first in all its queues. */
export const isFirst = (waiter: Waiter): boolean =>
  waiter.queues.every(({ first }) => first!.item === waiter);
