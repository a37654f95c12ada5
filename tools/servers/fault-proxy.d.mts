/** As seen from the proxy: `toServer` is what the client sends, `toClient` what it gets. */
export type Direction = 'toServer' | 'toClient';

/** Gives the bytes to pass on instead, null to drop the connection, undefined to change nothing. */
export type ReplyHook = (bytes: Buffer) => Buffer | null | undefined;

export interface FaultProxy {
  readonly host: string;
  readonly port: number;
  /** How many clients are connected now. */
  readonly connections: number;
  /** Passes everything on so much after it came, in both directions and in order. */
  delay(ms: number): void;
  /**
   * Passes on `count` more bytes in this direction, summed over all connections, and destroys the
   * connection that carried the last one. With 0 the next connection that carries any. Works once.
   */
  cutAfterBytes(count: number, direction: Direction): void;
  /** Holds everything back, the ends of connections too; when it is over, all of it flows. */
  blackHole(isOn: boolean): void;
  /** Closes the present connections to the server, and leaves their clients in silence. */
  halfOpen(): void;
  /** Destroys all connections, and closes new ones as soon as they are made. */
  refuse(isOn: boolean): void;
  /** Sees every chunk from the server right before it is passed on. */
  onReply(hook: ReplyHook | undefined): void;
  /** All faults off. Connections that are half open stay so: nothing could mend them. */
  heal(): void;
  stop(): Promise<void>;
}

/** A proxy on a free port of 127.0.0.1 that passes everything on to the port of `upstream`. */
export function startFaultProxy(upstream: { port: number; host?: string }): Promise<FaultProxy>;
