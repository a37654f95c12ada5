/** A TCP proxy to a service, for tests with a lost connection. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Can be cut while the service keeps running, and point to another service. */
export class Way {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port: number | undefined = undefined;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => this.#lead(socket));
  }

  static async open(url: string): Promise<Way> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const way = new Way(server);
    way.leadTo(url);
    return way;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  leadTo(url: string): void {
    this.#port = Number(new URL(url).port);
  }

  cut(): void {
    this.#port = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  #lead(socket: Socket): void {
    if (this.#port === undefined) {
      socket.destroy();
      return;
    }
    const other = connect(this.#port, '127.0.0.1');
    for (const [end, far] of [
      [socket, other],
      [other, socket],
    ] as const) {
      this.#sockets.add(end);
      end.on('error', () => {});
      end.on('close', () => {
        this.#sockets.delete(end);
        far.destroy();
      });
    }
    socket.pipe(other).pipe(socket);
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
