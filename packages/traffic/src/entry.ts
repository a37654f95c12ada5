/** What a line of an access log says about one request, whichever format it has. */

export interface Entry {
  /** When it came, ms since the epoch. */
  readonly timeMs: number;
  /** The client's address as the log has it. */
  readonly client: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** What follows the `?`, or nothing. */
  readonly search: string;
  readonly host: string;
  /** 0 if the log does not say. */
  readonly status: number;
  readonly bytes: number;
  /** Who signed in, if the log says. */
  readonly user: string;
  /** Any other field of the line by its name: a column, a member of the JSON, a header. */
  field(name: string): string | undefined;
}

/** One way of writing a log. `read` answers undefined for a line that is not of this form. */
export interface Format {
  readonly name: string;
  read(line: string): Entry | undefined;
}
