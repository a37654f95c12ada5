/** Requests of an access log, and the interface of log formats. */

/** The column with the costs of the requests, and the number of costs read so far. */
export interface CostSource {
  /** Name of the column or JSON member. */
  readonly name: string;
  /** Number of lines with a valid cost. */
  readonly read: number;
  /** Number of lines rejected because their cost is not a positive integer. */
  readonly refused: number;
  /** The first invalid cost. */
  readonly sample: string;
}

/** One request, independent of the log format. */
export interface Entry {
  /**
   * Time of arrival in ms since the epoch, or of the response if the log has only that time. An
   * entry that is too late to be sorted gets the latest time reached, so that times never decrease.
   */
  readonly timeMs: number;
  /** Address of the client as in the log, without a port. Of a list, the first address. */
  readonly client: string;
  /** HTTP method. Empty, like path and search, if the line is no HTTP request. */
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
  /** Source of the costs, one object for all entries of a log. Undefined without costs. */
  readonly costSource?: CostSource | undefined;
  /**
   * Returns another field of the line: a column or JSON member by name, or a request header by
   * lower-case name. The string, like `path` and `search`, may keep the whole line in memory. To
   * store it longer than the entry, copy it with `owned`.
   */
  field(name: string): string | undefined;
}

/** A log format. `read` returns undefined for a line in another format. */
export interface Format {
  readonly name: string;
  readonly costSource?: CostSource | undefined;
  /** Returns true if a line names columns and is no request. Called for each line in order. */
  isHeading?(line: string): boolean;
  read(line: string): Entry | undefined;
}
