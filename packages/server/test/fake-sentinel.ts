/** A fake Redis Sentinel. The test sets its master and when it announces a failover. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

const bulk = (text: string): string => `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
const list = (...texts: readonly string[]): string =>
  `*${texts.length}\r\n${texts.map(bulk).join('')}`;

/** Returns the arguments of each command in a chunk. Commands are short, so none is split. */
const commandsIn = (chunk: Buffer): string[][] =>
  String(chunk)
    .split(/^\*\d+\r\n/m)
    .filter((command) => command !== '')
    .map((command) => command.split('\r\n').filter((_, place) => place % 2 === 1));

export class FakeSentinel {
  /** The port of the master that it returns. */
  masterPort: number;
  /** Runs before it returns the address of the master. */
  beforeReply: () => Promise<void> = async () => {};
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();
  readonly #subscribers = new Set<Socket>();

  constructor(masterPort: number) {
    this.masterPort = masterPort;
  }

  async start(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  announce(): void {
    const message = list('message', '+switch-master', 'main');
    for (const socket of this.#subscribers) socket.write(message);
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', async (chunk) => {
      for (const args of commandsIn(chunk)) socket.write(await this.#reply(socket, args));
    });
  }

  async #reply(socket: Socket, args: readonly string[]): Promise<string> {
    const [name, subcommand] = args.map((arg) => arg.toLowerCase());
    if (name === 'hello') return "-ERR unknown command 'HELLO'\r\n";
    if (name === 'subscribe') {
      this.#subscribers.add(socket);
      return `*3\r\n${bulk('subscribe')}${bulk(args[1])}:1\r\n`;
    }
    if (subcommand === 'sentinels') return '*0\r\n';
    if (subcommand !== 'get-master-addr-by-name') return '+OK\r\n';
    await this.beforeReply();
    return list('127.0.0.1', String(this.masterPort));
  }
}
