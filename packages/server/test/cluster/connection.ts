/**
 * HTTP/1.1 connection that sends many requests in one packet. Requests without a response when the
 * server closes the connection are rejected.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface Reply {
  readonly status: number;
  readonly head: string;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field.
  readonly json: any;
}

export class ConnectionClosed extends Error {}

export class Connection {
  readonly #socket: Socket;
  #received = Buffer.alloc(0);
  readonly #waiting: { resolve(reply: Reply): void; reject(error: Error): void }[] = [];
  isClosed = false;
  /** Whether the server has sent `Connection: close`. */
  isClosing = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#receive(chunk));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.isClosed = true;
      const error = new ConnectionClosed(`closed before ${this.#waiting.length} responses`);
      for (const { reject } of this.#waiting.splice(0)) reject(error);
    });
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new Connection(socket);
  }

  /** Sends all requests in one write. Responses arrive in order. */
  post(path: string, bodies: readonly unknown[], method = 'POST'): Promise<Reply>[] {
    const texts = bodies.map((body) => {
      const json = JSON.stringify(body);
      const length = Buffer.byteLength(json);
      const head = `host: 127.0.0.1\r\ncontent-length: ${length}`;
      return `${method} ${path} HTTP/1.1\r\n${head}\r\n\r\n${json}`;
    });
    const replies = bodies.map(
      () => new Promise<Reply>((resolve, reject) => this.#waiting.push({ resolve, reject })),
    );
    this.#socket.write(texts.join(''));
    return replies;
  }

  /** Sends raw text, without expecting a response. */
  write(text: string): void {
    this.#socket.write(text);
  }

  async check(body: unknown): Promise<Reply> {
    return this.post('/v1/check', [body])[0];
  }

  #receive(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = this.#received.toString('latin1', 0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      const total = end + 4 + length;
      if (this.#received.length < total) return;
      const text = this.#received.toString('utf8', end + 4, total);
      this.#received = this.#received.subarray(total);
      if (/connection: close/i.test(head)) this.isClosing = true;
      const status = Number(head.slice(9, 12));
      const json = /content-type: [\w/+]*json/i.test(head) ? JSON.parse(text) : undefined;
      this.#waiting.shift()?.resolve({ status, head, text, json });
    }
  }

  close(): void {
    this.#socket.destroy();
  }
}
