/**
 * Accepts connections and hands them to the workers in turn, so that each has equally many: if the
 * workers accepted from one socket, the fastest would get most. It also makes a graceful shutdown
 * simple: once the listeners are closed, every connection is at a worker.
 *
 * Only responsive workers get connections, those with the fewest unconfirmed ones first. A worker
 * that stops confirming gets no more than a few. If no worker is ready, connections wait here.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { ListenerName } from '../http/connection-source.ts';
import { drainBacklog } from '../http/drain-backlog.ts';
import type { Listen } from '../settings.ts';

/** Accepted connections that may wait for a worker. Further ones are closed. */
const MAX_WAITING = 1024;

export interface Accepted {
  readonly listener: ListenerName;
  readonly socket: Socket;
}

export interface ConnectionTarget {
  readonly isReady: boolean;
  /** Connections that were handed over and not confirmed yet. */
  readonly unconfirmed: number;
  handOver(connection: Accepted): void;
}

export class ConnectionBalancer {
  readonly #targets: () => readonly ConnectionTarget[];
  readonly #servers: Server[] = [];
  #waiting: Accepted[] = [];
  #acceptedCount = 0;
  #turn = 0;

  /** `targets` returns the running workers. */
  constructor(targets: () => readonly ConnectionTarget[]) {
    this.#targets = targets;
  }

  open(
    listener: ListenerName,
    { host, port }: Listen,
    onError: (error: Error) => void,
  ): Promise<Listen> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      this.#acceptedCount++;
      // A client may reset its connection before a worker has it.
      socket.on('error', () => {});
      this.distribute([{ listener, socket }]);
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, backlog: 4096 }, () => {
        server.off('error', reject);
        // For example EMFILE when a connection is accepted.
        server.on('error', onError);
        this.#servers.push(server);
        resolve({ host, port: (server.address() as AddressInfo).port });
      });
    });
  }

  /** Hands connections to workers, the oldest first. */
  distribute(accepted: readonly Accepted[] = []): void {
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

  /** Returns the ready worker with the fewest unconfirmed connections; in turn if equal. */
  #nextTarget(): ConnectionTarget | undefined {
    const targets = this.#targets();
    let best: ConnectionTarget | undefined;
    this.#turn++;
    for (let offset = 0; offset < targets.length; offset++) {
      const target = targets[(this.#turn + offset) % targets.length];
      if (!target.isReady) continue;
      if (best === undefined || target.unconfirmed < best.unconfirmed) best = target;
    }
    return best;
  }

  /** Closes the listeners when all connections are at a worker, or after `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    const isBusy = (): boolean => this.#waiting.length > 0;
    await drainBacklog({ accepted: () => this.#acceptedCount, timeoutMs, isBusy });
    for (const server of this.#servers) server.close();
    for (const { socket } of this.#waiting.splice(0)) socket.destroy();
  }
}
