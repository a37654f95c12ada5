/** The interface between the service and a kind of store (memory, Redis). `index.ts` lists them. */
import type { FailureAction, Store } from 'sluice';

export interface StoreConnection {
  readonly store: Store;
  /** Resolves when the first connection is established; undefined for a store without a server. */
  readonly connected?: Promise<void>;
  /** Reads a section of the server's `INFO`; undefined for a store without a server. */
  readonly info?: (section: string) => Promise<string>;
  /** Closes the connection. */
  close(): Promise<void>;
}

export interface OpenStore extends StoreConnection {
  /** `StoreKind.name`. */
  readonly kind: string;
}

export interface StoreListeners {
  onWarning(warning: { readonly code: string; readonly message: string }): void;
  /** Called when the connection is established (`up`) or lost (`down`). */
  onConnection(state: 'up' | 'down', error?: Error): void;
}

/** The settings that stores use. */
export interface StoreSettings {
  /** The value of `--store`. */
  readonly store: string;
  readonly prefix: string;
  readonly maxKeys: number;
  readonly deadlineMs: number;
  readonly onFailure: FailureAction;
  readonly localShare: number;
  /** The longest lease. Undefined: this process borrows no units. */
  readonly leaseMs: number | undefined;
}

export interface StoreKind {
  /** Name in events, metrics and the API: `redis`. */
  readonly name: string;
  /** Name in text for people: `Redis`. */
  readonly title: string;
  /**
   * Starts of `--store` values of this kind: the whole value (`memory`), or the scheme of a URL
   * (`redis://`).
   */
  readonly schemes: readonly string[];
  /**
   * Whether the service itself holds the counters. With several workers, its store process holds
   * them.
   */
  readonly isEmbedded: boolean;
  /** Throws a `StoreUrlError` if the value of `--store` is not valid. */
  validate(url: string): void;
  /** Returns the value of `--store` with its passwords hidden. */
  redact(url: string): string;
  open(settings: StoreSettings, listeners: StoreListeners): Promise<StoreConnection>;
}

/**
 * Thrown for an invalid URL. The message is the part after "got " of an error message. It contains
 * at most the scheme of the URL.
 */
export class StoreUrlError extends Error {}
