/** Requests of an access log, and the interface of log formats. */

/** The column with the costs of the requests, and the number of costs read so far. */
export interface CostSource {
  /** Name of the column or JSON member. */
  readonly name: string;
  /** Number of lines with a valid cost so far. */
  readonly read: number;
  /** Number of lines rejected so far because their cost is not a positive integer. */
  readonly refused: number;
  /** The first invalid cost. */
  readonly sample: string;
}

/** One request, independent of the log format. */
export interface Entry {
  /**
   * Time of arrival in ms since the epoch, or time of the response if the log has only that. If a
   * line is too late to be sorted, its entry gets the time of the entries that were released before
   * it, so that times never decrease.
   */
  readonly timeMs: number;
  /**
   * Address of the client as in the log, without a port. If the log has a list of addresses, the
   * first address.
   */
  readonly client: string;
  /**
   * HTTP method. The method, `path` and `search` are empty if the request was not HTTP, such as a
   * TLS handshake on a plain port.
   */
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  /** Query after `?`, or empty. */
  readonly search: string;
  /** Host without a port; empty if the log does not have it. */
  readonly host: string;
  /** Response status; 0 if the log does not have it. */
  readonly status: number;
  readonly bytes: number;
  /** The authenticated user, or empty. */
  readonly user: string;
  /** Cost, a positive integer; undefined means 1. */
  readonly cost?: number | undefined;
  /**
   * Where the costs of the log come from. All entries of a log share one `CostSource`. Undefined if
   * the format has no costs.
   */
  readonly costSource?: CostSource | undefined;
  /**
   * Returns another field of the line: a column or JSON member by name, or a request header by
   * lower-case name. The returned string, `path` and `search` may be slices of the line, which keep
   * the whole line in memory. To store them longer than the entry, copy them with `owned`.
   */
  field(name: string): string | undefined;
}

/** A log format. */
export interface Format {
  readonly name: string;
  readonly costSource?: CostSource | undefined;
  /**
   * Returns true if a line is a header or a directive instead of a request. Must be called for
   * every line in order, because a header may name the columns of the lines that follow it.
   */
  isHeading?(line: string): boolean;
  /** Parses a line. Returns undefined if the line is invalid or in another format. */
  read(line: string): Entry | undefined;
}
