/** The processes that serve together, as one of them sees it; most services have one alone. */
import type { Configuration } from '../configuration.ts';
import type { Desk } from '../desk.ts';
import type { Door } from '../http/door.ts';

export interface Crew {
  /** Undefined where a process listens itself. */
  readonly door: Door | undefined;
  /** Brings a process up to date before it serves anything. */
  join(desk: Desk, configuration: Configuration): void;
  /** What this process says when any of the crew asks. */
  answer(question: string, answerer: (detail: unknown) => unknown): void;
  /** What each process of the crew says, this one included. Who does not answer is left out. */
  gather(question: string, detail?: unknown): Promise<readonly unknown[]>;
  /** Waits until the whole crew goes by what the API has changed here. */
  told(): Promise<void>;
  /** Whether that is in the crew's file; undefined if this process keeps its own. */
  readonly isSaved: boolean | undefined;
}

/** One process, which has nobody else to ask. */
export class LoneCrew implements Crew {
  readonly #answerers = new Map<string, (detail: unknown) => unknown>();
  readonly door = undefined;
  readonly isSaved = undefined;

  join(): void {}

  answer(question: string, answerer: (detail: unknown) => unknown): void {
    this.#answerers.set(question, answerer);
  }

  async gather(question: string, detail?: unknown): Promise<readonly unknown[]> {
    const answerer = this.#answerers.get(question);
    return answerer === undefined ? [] : [await answerer(detail)];
  }

  async told(): Promise<void> {}
}
