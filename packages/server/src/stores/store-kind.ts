/** The interface between the service and a kind of store (memory, Redis). `index.ts` lists them. */
import type { FailureAction, Store } from 'sluice';

export interface StoreConnection {
  readonly store: Store;
  /** Resolves on the first connection; undefined for a store without a server. */
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
}

export interface StoreKind {
  /** Name in events, metrics and the API: `redis`. */
  readonly name: string;
  /** Name in text for people: `Redis`. */
  readonly title: string;
  /** Values of `--store`: a whole word (`memory`), or the start of a URL (`redis://`). */
  readonly forms: readonly string[];
  /** Whether the service itself holds the counters; with several workers, its store process. */
  readonly isEmbedded: boolean;
  /** Throws a `StoreUrlError` if the value of `--store` is not valid. */
  validate(url: string): void;
  /** Returns the value of `--store` with its passwords hidden. */
  redact(url: string): string;
  open(settings: StoreSettings, listeners: StoreListeners): Promise<StoreConnection>;
}

/** Thrown for an invalid URL. The message completes "got ..." and contains at most the scheme. */
export class StoreUrlError extends Error {}
