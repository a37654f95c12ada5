/** The properties of a request that rules match and that keys are made of. */
export interface RequestAttributes {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The query without `?`; empty if there is none. */
  readonly search: string;
  readonly host: string;
  /** By lower-case name. */
  header(name: string): string | undefined;
  /** The client's address as a key. Called only if a rule needs it. */
  address(): string;
}
