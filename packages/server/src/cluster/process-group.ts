/** The processes that serve together, as one of them sees them. */
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { ConnectionSource } from '../http/connection-source.ts';

export interface ProcessGroup {
  /** Undefined if the process accepts connections itself. */
  readonly source: ConnectionSource | undefined;
  /** Applies the shared state before the process serves. */
  join(decisionService: DecisionService, configuration: Configuration): void;
  /** Sets this process's handler for a query. */
  handle(query: string, handler: (detail: unknown) => unknown): void;
  /** Resolves to the results of all processes, this one included. Omits those that failed. */
  gather(query: string, detail?: unknown): Promise<readonly unknown[]>;
  /** Resolves when all processes have applied the changes made through this one's API. */
  synced(): Promise<void>;
  /** Whether the changes are saved in the group's file; undefined if this process has its own. */
  readonly isSaved: boolean | undefined;
}

/** A process that serves alone. */
export class SingleProcess implements ProcessGroup {
  readonly #handlers = new Map<string, (detail: unknown) => unknown>();
  readonly source = undefined;
  readonly isSaved = undefined;

  join(): void {}

  handle(query: string, handler: (detail: unknown) => unknown): void {
    this.#handlers.set(query, handler);
  }

  async gather(query: string, detail?: unknown): Promise<readonly unknown[]> {
    const handler = this.#handlers.get(query);
    return handler === undefined ? [] : [await handler(detail)];
  }

  async synced(): Promise<void> {}
}
