/**
 * Takes connections and shows them to the workers in turn, so that each has as many as the others:
 * workers that took them from one socket themselves would leave most to the fastest. It also makes
 * stopping sound: once it takes no more, whoever was let in is at a worker already.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { monotonicMs } from '../clock.ts';
import type { DoorName } from '../http/door.ts';
import type { Listen } from '../settings.ts';

/** How many may wait while no worker serves, such as when all of them have died. */
const MOST_WAITING = 1024;
const QUIET_TURN_MS = 0.5;

/** Whoever can be shown a connection. */
export interface Host {
  take(door: DoorName, socket: Socket): void;
}

export class Doorman {
  readonly #hosts: () => readonly Host[];
  readonly #servers: Server[] = [];
  #waiting: (readonly [DoorName, Socket])[] = [];
  #taken = 0;
  #shown = 0;

  /** `hosts` are those who serve at the moment. */
  constructor(hosts: () => readonly Host[]) {
    this.#hosts = hosts;
  }

  open(door: DoorName, { host, port }: Listen, onError: (error: Error) => void): Promise<Listen> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      this.#taken++;
      this.#show(door, socket);
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

  #show(door: DoorName, socket: Socket): void {
    // Who is gone before a worker has it is nobody's loss.
    socket.on('error', () => {});
    const hosts = this.#hosts();
    if (hosts.length > 0) hosts[this.#shown++ % hosts.length].take(door, socket);
    else if (this.#waiting.length < MOST_WAITING) this.#waiting.push([door, socket]);
    else socket.destroy();
  }

  /** Shows those who wait to whoever serves now. */
  showWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const [door, socket] of waiting) this.#show(door, socket);
  }

  /**
   * Takes no more. Whoever waits to be let in when a socket stops to listen is thrown out by the
   * system, though they believe to be connected. So it goes on until a turn of the event loop was
   * short and let nobody in, but not for ever.
   */
  async close(mostMs: number): Promise<void> {
    const untilMs = monotonicMs() + mostMs;
    for (;;) {
      const startMs = monotonicMs();
      const taken = this.#taken;
      await new Promise(setImmediate);
      const nowMs = monotonicMs();
      const isQuiet = this.#taken === taken && nowMs - startMs < QUIET_TURN_MS;
      if (isQuiet || nowMs >= untilMs) break;
    }
    for (const server of this.#servers) server.close();
    for (const [, socket] of this.#waiting.splice(0)) socket.destroy();
  }
}
