export type ProxyKind = 'nginx' | 'caddy' | 'haproxy';

export interface ProxyOptions {
  /** Port of the upstream on 127.0.0.1. */
  readonly upstreamPort: number;
  /**
   * Trusted proxies in front of this one. Caddy drops X-Forwarded-For of all others; nginx and
   * HAProxy always append to it.
   */
  readonly trusted?: readonly string[];
  /** Whether it also appends to Forwarded (RFC 7239); default false. */
  readonly forwarded?: boolean;
}

export interface RunningProxy {
  readonly kind: ProxyKind;
  readonly host: string;
  readonly port: number;
  readonly pid: number;
  /** The end of the proxy's output. */
  readonly output: string;
  /** Sends SIGKILL, waits for the exit and deletes its folder. */
  stop(): Promise<void>;
}

/** Starts a reverse proxy that appends its client's address to X-Forwarded-For. */
export function startProxy(kind: ProxyKind, options: ProxyOptions): Promise<RunningProxy>;

export interface ShippedProxyOptions {
  /** Path of the configuration. Only its addresses are changed. */
  readonly file: string;
  /** Port of Sluice on 127.0.0.1. */
  readonly servicePort: number;
  /** Port of the application on 127.0.0.1. */
  readonly upstreamPort: number;
}

/** Starts a proxy with a file of examples/proxies/, which calls Sluice for every request. */
export function startShippedProxy(
  kind: ProxyKind,
  options: ShippedProxyOptions,
): Promise<RunningProxy>;
