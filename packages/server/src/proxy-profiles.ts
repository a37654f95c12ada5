/**
 * Which headers describe the forwarded request, by the proxy that sends them (`--proxy`). Only
 * these are read. A proxy passes on what else its client sends, so any other forwarding header may
 * be the client's own.
 */

/** Header names are in lower case. The client's address is in the header `--forwarded-header`. */
export interface ProxyProfile {
  /** The headers with method and path; undefined if both are those of the request itself. */
  readonly described: { readonly method: string; readonly url: string } | undefined;
  /** The header with the host of the forwarded request. */
  readonly host: string;
  /**
   * Whether the proxy may join repeated lines of a header with a comma. Then a comma in a key is
   * taken for a repeated header.
   */
  readonly joinsLines: boolean;
}

const FORWARDED = {
  described: { method: 'x-forwarded-method', url: 'x-forwarded-uri' },
  host: 'x-forwarded-host',
  joinsLines: false,
} as const;

export const PROXY_PROFILES = {
  nginx: {
    described: { method: 'x-original-method', url: 'x-original-uri' },
    host: 'host',
    joinsLines: false,
  },
  caddy: FORWARDED,
  haproxy: FORWARDED,
  traefik: FORWARDED,
  envoy: { described: undefined, host: 'host', joinsLines: true },
  generic: { ...FORWARDED, joinsLines: true },
} as const satisfies Readonly<Record<string, ProxyProfile>>;

export type ProxyName = keyof typeof PROXY_PROFILES;

export const PROXY_NAMES = Object.keys(PROXY_PROFILES) as readonly ProxyName[];
