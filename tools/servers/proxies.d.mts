export type ProxyKind = 'nginx' | 'caddy' | 'haproxy';

export interface ProxyOptions {
  /** Where requests are passed on to, on 127.0.0.1. */
  readonly upstreamPort: number;
  /**
   * The proxies in front of this one, which Caddy has to be told: from anyone else it drops
   * X-Forwarded-For. nginx and HAProxy add to whatever came.
   */
  readonly trusted?: readonly string[];
  /** Whether it also adds to Forwarded (RFC 7239), which none of them does unless told. */
  readonly forwarded?: boolean;
}

export interface RunningProxy {
  readonly kind: ProxyKind;
  readonly host: string;
  readonly port: number;
  readonly pid: number;
  /** The end of what the proxy has printed. */
  readonly output: string;
  /** SIGKILL, waits until the process is gone, and removes its folder. */
  stop(): Promise<void>;
}

/** Starts a plain reverse proxy that adds its client's address to X-Forwarded-For. */
export function startProxy(kind: ProxyKind, options: ProxyOptions): Promise<RunningProxy>;

export interface ShippedProxyOptions {
  /** The configuration, which is used as it is but for the addresses in it. */
  readonly file: string;
  /** Where Sluice is, on 127.0.0.1. */
  readonly servicePort: number;
  /** Where the application is, on 127.0.0.1. */
  readonly upstreamPort: number;
}

/** Starts a proxy from a file in examples/proxies/, which asks Sluice about every request. */
export function startShippedProxy(
  kind: ProxyKind,
  options: ShippedProxyOptions,
): Promise<RunningProxy>;
