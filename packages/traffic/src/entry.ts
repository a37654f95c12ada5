/** What a line of an access log says about one request, whichever format it has. */

/** Where a log has the costs of its requests, and how many of them, so far. */
export interface CostSource {
  /** The column, or the member of the JSON. */
  readonly name: string;
  /** Lines that say what they cost. */
  readonly read: number;
  /** Lines that cannot be read, because what they say is no integer of at least 1. */
  readonly refused: number;
  /** What the first of those says. */
  readonly sample: string;
}

export interface Entry {
  /**
   * When it came, ms since the epoch, or when it was answered if that is all that the log has. A
   * line that cannot be put in its place has the time reached instead: times never decrease.
   */
  readonly timeMs: number;
  /** The client's address as the log has it, without a port; of a list, the first. */
  readonly client: string;
  /** Empty, like path and search, if what came was no request, such as a TLS handshake. */
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** What follows the `?`, or nothing. */
  readonly search: string;
  /** Without a port; empty if the log does not say. */
  readonly host: string;
  /** 0 if the log does not say. */
  readonly status: number;
  readonly bytes: number;
  /** Who signed in, if the log says. */
  readonly user: string;
  /** An integer of at least 1; if the log does not say, a request costs 1. */
  readonly cost?: number | undefined;
  /** The same object for all entries of a log; undefined if nothing in it may be a cost. */
  readonly costSource?: CostSource | undefined;
  /**
   * Any other field of the line: a column or a member of the JSON by its name, a header of the
   * request by its lower-case name. What is kept for long should be `owned`, also path and search.
   */
  field(name: string): string | undefined;
}

/** One way of writing a log. `read` answers undefined for a line that is not of this form. */
export interface Format {
  readonly name: string;
  /** Where its costs are, and what has been seen of them, if it may have some. */
  readonly costSource?: CostSource | undefined;
  read(line: string): Entry | undefined;
}
