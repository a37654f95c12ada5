/** One request of an access log, independent of the format. */

/** Where a log has the costs of its requests, and how many have been read. */
export interface CostSource {
  /** Column or JSON member. */
  readonly name: string;
  /** Lines with a valid cost. */
  readonly read: number;
  /** Unreadable lines: their cost is not a positive integer. */
  readonly refused: number;
  /** The first invalid cost. */
  readonly sample: string;
}

export interface Entry {
  /**
   * Arrival in ms since the epoch, or the time of the response if the log has only that. A line
   * that is too late to be sorted has the latest time reached instead: times never decrease.
   */
  readonly timeMs: number;
  /** Address of the client as in the log, without a port; the first one of a list. */
  readonly client: string;
  /** Empty, like path and search, if it was not an HTTP request, such as a TLS handshake. */
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The part after `?`, or empty. */
  readonly search: string;
  /** Without a port; empty if the log does not have it. */
  readonly host: string;
  /** 0 if the log does not have it. */
  readonly status: number;
  readonly bytes: number;
  /** The authenticated user, or empty. */
  readonly user: string;
  /** A positive integer; undefined means 1. */
  readonly cost?: number | undefined;
  /** The same object for all entries of a log; undefined if the format has no costs. */
  readonly costSource?: CostSource | undefined;
  /**
   * Returns another field of the line: a column or JSON member by name, or a request header by
   * lower-case name. Copy strings that are kept, also path and search, with `owned`.
   */
  field(name: string): string | undefined;
}

/** A log format. `read` returns undefined for a line that does not have it. */
export interface Format {
  readonly name: string;
  readonly costSource?: CostSource | undefined;
  /** Whether a line names columns instead of being a request. Called for each line in order. */
  isHeading?(line: string): boolean;
  read(line: string): Entry | undefined;
}
