/** What is known of a request when its limits are looked up, and when its keys are read. */
export interface RequestFacts {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** What follows the `?`, or nothing. */
  readonly search: string;
  readonly host: string;
  /** By lower-case name. */
  header(name: string): string | undefined;
  /** The client's address as a key; asked only if a rule needs it. */
  address(): string;
}
