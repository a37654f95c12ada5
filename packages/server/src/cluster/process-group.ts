/** The processes that serve together, as one of them sees it; most services have one alone. */
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { ConnectionSource } from '../http/connection-source.ts';

export interface ProcessGroup {
  /** Undefined where a process listens itself. */
  readonly source: ConnectionSource | undefined;
  /** Brings a process up to date before it serves anything. */
  join(decisionService: DecisionService, configuration: Configuration): void;
  /** What this process says when any of the crew asks. */
  answer(question: string, handler: (detail: unknown) => unknown): void;
  /** What each process of the crew says, this one included. Who does not answer is left out. */
  gather(question: string, detail?: unknown): Promise<readonly unknown[]>;
  /** Waits until the whole crew goes by what the API has changed here. */
  told(): Promise<void>;
  /** Whether that is in the crew's file; undefined if this process keeps its own. */
  readonly isSaved: boolean | undefined;
}

/** One process, which has nobody else to ask. */
export class SingleProcess implements ProcessGroup {
  readonly #handlers = new Map<string, (detail: unknown) => unknown>();
  readonly source = undefined;
  readonly isSaved = undefined;

  join(): void {}

  answer(question: string, handler: (detail: unknown) => unknown): void {
    this.#handlers.set(question, handler);
  }

  async gather(question: string, detail?: unknown): Promise<readonly unknown[]> {
    const handler = this.#handlers.get(question);
    return handler === undefined ? [] : [await handler(detail)];
  }

  async told(): Promise<void> {}
}
