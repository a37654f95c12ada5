/**
 * Accepts connections and deals them out to the workers in turn, so that each has as many as the
 * others: workers that accepted from one socket would leave most connections to the fastest. That
 * also makes stopping sound: once it accepts no more, every connection is at a worker already.
 *
 * A worker gets a connection only if it is responsive and has confirmed most of those that were
 * handed to it. The others wait here, up to a bound.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { monotonicMs } from '../clock.ts';
import type { ListenerName } from '../http/connection-source.ts';
import type { Listen } from '../settings.ts';

/** How many connections may wait for a worker. Further ones are closed. */
const MAX_WAITING = 1024;
const QUIET_TURN_MS = 0.5;

export interface Accepted {
  readonly door: ListenerName;
  readonly socket: Socket;
}

export interface Host {
  /** Whether it can be given a connection now. */
  readonly isReady: boolean;
  take(door: ListenerName, socket: Socket): void;
}

export class ConnectionBalancer {
  readonly #hosts: () => readonly Host[];
  readonly #servers: Server[] = [];
  #waiting: Accepted[] = [];
  #taken = 0;
  #shown = 0;

  /** `hosts` are the workers that there are at the moment. */
  constructor(hosts: () => readonly Host[]) {
    this.#hosts = hosts;
  }

  open(
    door: ListenerName,
    { host, port }: Listen,
    onError: (error: Error) => void,
  ): Promise<Listen> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      this.#taken++;
      // A client may reset its connection before a worker has it.
      socket.on('error', () => {});
      this.show([{ door, socket }]);
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, backlog: 4096 }, () => {
        server.off('error', reject);
        // Such as a connection that could not be taken for want of open files.
        server.on('error', onError);
        this.#servers.push(server);
        resolve({ host, port: (server.address() as AddressInfo).port });
      });
    });
  }

  /** Deals connections out, those that have waited longest first. */
  show(accepted: readonly Accepted[] = []): void {
    this.#waiting.push(...accepted);
    let dealt = 0;
    for (const { door, socket } of this.#waiting) {
      const host = this.#next();
      if (host === undefined) break;
      host.take(door, socket);
      dealt++;
    }
    if (dealt > 0) this.#waiting = this.#waiting.slice(dealt);
    for (const { socket } of this.#waiting.splice(MAX_WAITING)) socket.destroy();
  }

  /** The next worker in turn that is ready. */
  #next(): Host | undefined {
    const hosts = this.#hosts();
    for (let tries = 0; tries < hosts.length; tries++) {
      const host = hosts[this.#shown++ % hosts.length];
      if (host.isReady) return host;
    }
    return undefined;
  }

  /**
   * Accepts no more. The system resets connections that wait to be accepted when a socket stops to
   * listen, though their clients believe to be connected. So it goes on until a turn of the event
   * loop was short and accepted none, and none waits for a worker, but not for ever.
   */
  async close(mostMs: number): Promise<void> {
    const untilMs = monotonicMs() + mostMs;
    for (;;) {
      const startMs = monotonicMs();
      const taken = this.#taken;
      await new Promise(setImmediate);
      const nowMs = monotonicMs();
      const isQuiet = this.#taken === taken && nowMs - startMs < QUIET_TURN_MS;
      if ((isQuiet && this.#waiting.length === 0) || nowMs >= untilMs) break;
    }
    for (const server of this.#servers) server.close();
    for (const { socket } of this.#waiting.splice(0)) socket.destroy();
  }
}
