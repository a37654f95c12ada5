/** A TCP proxy to a service, for tests with a lost connection. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Can be cut while the service keeps running, and point to another service. */
export class TcpProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #port: number | undefined = undefined;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket) => this.#forward(socket));
  }

  static async open(url: string): Promise<TcpProxy> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const proxy = new TcpProxy(server);
    proxy.connectTo(url);
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  connectTo(url: string): void {
    this.#port = Number(new URL(url).port);
  }

  cut(): void {
    this.#port = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  #forward(socket: Socket): void {
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
