/**
 * The processes that serve together: the workers of `--workers`, or a single process. The service
 * uses the group to share changes and to query all processes. With workers, each call goes through
 * the supervisor, which leaves out workers that do not reply in time.
 */
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { ConnectionSource } from '../http/connection-source.ts';

export interface ProcessGroup {
  /** The source of connections; undefined if the process accepts connections itself. */
  readonly source: ConnectionSource | undefined;
  /**
   * Called once, before the process serves. From then on, changes made through the API of any
   * process are applied in all processes.
   */
  join(decisionService: DecisionService, configuration: Configuration): void;
  /** Sets the function that handles a query in this process. */
  handle(query: string, handler: (detail: unknown) => unknown): void;
  /** Runs a query in all processes. Resolves to the results; processes that fail are left out. */
  gather(query: string, detail?: unknown): Promise<readonly unknown[]>;
  /** Resolves when all processes have applied the changes made through this process's API. */
  synced(): Promise<void>;
  /** Whether all changes are in the overrides file; undefined if this process writes the file. */
  readonly isSaved: boolean | undefined;
}

/** The group of a process without other workers. */
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
