/**
 * For each proxy (`--proxy`), the headers in which it describes the forwarded request. The service
 * reads no other forwarding headers: a proxy passes on headers of its client, so a client could
 * forge them.
 */

/**
 * Header names are in lower case. The client's address is in the header that `--forwarded-header`
 * names.
 */
export interface ProxyProfile {
  /**
   * The headers with the method and path of the forwarded request. Undefined if the proxy calls the
   * service with the same method and path.
   */
  readonly described: { readonly method: string; readonly url: string } | undefined;
  /** The header with the host of the forwarded request. */
  readonly host: string;
  /**
   * Whether the proxy may join repeated lines of a header with a comma. If so, a comma in a header
   * that a key uses is treated as a repetition of the header.
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
