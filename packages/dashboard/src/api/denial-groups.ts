/** Denials of the event stream, grouped by policy, key and shadow mode. */
import type { Denial } from './types.ts';

export interface DenialGroup {
  /** Unique for the policy, key and shadow mode. */
  readonly id: string;
  /** The newest denial of the group. */
  readonly last: Denial;
  /** Number of denials in the group. */
  readonly count: number;
}

/** Maximum number of groups. The group whose last denial is the oldest is dropped first. */
export const MAX_GROUPS = 500;

const idOf = ({ policy, key, shadow }: Denial): string =>
  JSON.stringify([policy, key, shadow === true]);

export class DenialGroups {
  /** Groups by id, ordered by their last denial, oldest first. */
  readonly #groups = new Map<string, DenialGroup>();
  /** Number of denials in all groups, including dropped groups. */
  received = 0;
  /** Number of groups dropped. */
  dropped = 0;

  add(denials: readonly Denial[]): void {
    for (const last of denials) {
      const id = idOf(last);
      const count = 1 + (last.repeats ?? 0);
      const before = this.#groups.get(id)?.count ?? 0;
      this.#groups.delete(id);
      this.#groups.set(id, { id, last, count: before + count });
      this.received += count;
    }
    for (const id of this.#groups.keys()) {
      if (this.#groups.size <= MAX_GROUPS) break;
      this.#groups.delete(id);
      this.dropped++;
    }
  }

  /** Returns the groups, those with the newest denials first. */
  list(): readonly DenialGroup[] {
    return [...this.#groups.values()].reverse();
  }
}
