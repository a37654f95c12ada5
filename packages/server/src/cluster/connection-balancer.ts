/**
 * Runs in the supervisor: accepts connections and hands each to a worker over IPC. The worker
 * confirms each connection that it has received. If the workers accepted connections from one
 * listening socket themselves, the fastest worker would get most connections.
 *
 * The ready worker with the fewest unconfirmed connections gets the next one; equal workers take
 * turns. A worker that hangs stops confirming and is not ready until it confirms again. If it
 * exits, its unconfirmed connections are handed to other workers. If no worker is ready,
 * connections wait in the supervisor.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { ListenerName } from '../http/connection-source.ts';
import { drainBacklog } from '../http/drain-backlog.ts';
import type { Listen } from '../settings.ts';

/** Maximum number of connections that wait for a worker. Further ones are closed. */
const MAX_WAITING = 1024;

export interface AcceptedConnection {
  readonly listener: ListenerName;
  readonly socket: Socket;
}

export interface ConnectionTarget {
  readonly isReady: boolean;
  /** Number of connections that were handed over and are not confirmed yet. */
  readonly unconfirmed: number;
  handOver(connection: AcceptedConnection): void;
}

export class ConnectionBalancer {
  readonly #targets: () => readonly ConnectionTarget[];
  readonly #servers: Server[] = [];
  #waiting: AcceptedConnection[] = [];
  #acceptedCount = 0;
  /** Index of the worker that is considered first for the next connection. */
  #nextIndex = 0;

  /** `targets` returns the running workers. */
  constructor(targets: () => readonly ConnectionTarget[]) {
    this.#targets = targets;
  }

  /**
   * Listens on an address. `onError` is called if the listening socket later fails to accept a
   * connection.
   */
  open(
    listener: ListenerName,
    { host, port }: Listen,
    onError: (error: Error) => void,
  ): Promise<Listen> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      this.#acceptedCount++;
      // Without an error listener, a connection reset by a client would crash this process.
      socket.on('error', () => {});
      this.distribute([{ listener, socket }]);
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, backlog: 4096 }, () => {
        server.off('error', reject);
        // For example EMFILE: too many open files to accept a connection.
        server.on('error', onError);
        this.#servers.push(server);
        resolve({ host, port: (server.address() as AddressInfo).port });
      });
    });
  }

  /** Hands the waiting connections and `accepted` to ready workers, the oldest first. */
  distribute(accepted: readonly AcceptedConnection[] = []): void {
    this.#waiting.push(...accepted);
    let count = 0;
    for (const connection of this.#waiting) {
      const target = this.#nextTarget();
      if (target === undefined) break;
      target.handOver(connection);
      count++;
    }
    if (count > 0) this.#waiting = this.#waiting.slice(count);
    for (const { socket } of this.#waiting.splice(MAX_WAITING)) socket.destroy();
  }

  /** Returns the ready worker with the fewest unconfirmed connections. */
  #nextTarget(): ConnectionTarget | undefined {
    const targets = this.#targets();
    let best: ConnectionTarget | undefined;
    this.#nextIndex++;
    for (let offset = 0; offset < targets.length; offset++) {
      const target = targets[(this.#nextIndex + offset) % targets.length];
      if (!target.isReady) continue;
      if (best === undefined || target.unconfirmed < best.unconfirmed) best = target;
    }
    return best;
  }

  /**
   * Accepts the connections that wait in the kernel's backlog, hands them to workers and then stops
   * listening, at the latest after `timeoutMs`. Closes connections that no worker has received by
   * then.
   */
  async close(timeoutMs: number): Promise<void> {
    const isBusy = (): boolean => this.#waiting.length > 0;
    await drainBacklog({ accepted: () => this.#acceptedCount, timeoutMs, isBusy });
    for (const server of this.#servers) server.close();
    for (const { socket } of this.#waiting.splice(0)) socket.destroy();
  }
}
