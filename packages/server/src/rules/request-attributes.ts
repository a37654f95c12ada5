/** The properties of a request that rules match and keys contain. */
export interface RequestAttributes {
  readonly method: string;
  /** The path without the query. */
  readonly path: string;
  /** The query without `?`; empty if there is none. */
  readonly search: string;
  readonly host: string;
  /** Returns the value of a header by its lower-case name. */
  header(name: string): string | undefined;
  /** Returns the client's address as a key. Called only if a rule needs the address. */
  address(): string;
}
