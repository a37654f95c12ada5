/** `toServer`: bytes that the client sends; `toClient`: bytes that it receives. */
export type Direction = 'toServer' | 'toClient';

/** Returns bytes to forward instead, null to drop the connection, or undefined for no change. */
export type ReplyHook = (bytes: Buffer) => Buffer | null | undefined;

export interface FaultProxy {
  readonly host: string;
  readonly port: number;
  /** Number of connected clients. */
  readonly connections: number;
  /** Delays all bytes in both directions, in order. */
  delay(ms: number): void;
  /**
   * Forwards `count` more bytes in this direction, summed over all connections, then destroys the
   * connection with the last one; with 0, the next connection that sends any. Works once.
   */
  cutAfterBytes(count: number, direction: Direction): void;
  /** Buffers all bytes and ends of connections until the fault is cleared. */
  blackHole(isOn: boolean): void;
  /** Closes the current connections to the server, but not to their clients. */
  halfOpen(): void;
  /** Destroys all connections and closes new ones immediately. */
  refuse(isOn: boolean): void;
  /** Called with every chunk from the server before it is forwarded. */
  onReply(hook: ReplyHook | undefined): void;
  /** Clears all faults. Half-open connections stay half-open. */
  heal(): void;
  stop(): Promise<void>;
}

/** Starts a proxy on a free port of 127.0.0.1 that forwards to the port of `upstream`. */
export function startFaultProxy(upstream: { port: number; host?: string }): Promise<FaultProxy>;
