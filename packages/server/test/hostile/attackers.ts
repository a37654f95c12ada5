/** Clients that send hostile messages over HTTP, TLS and gRPC and count the results. */
import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { Grammar, grpcMessage, http2Bytes, httpRequest } from './grammar.ts';

/** Timeout for messages that may have no response. */
const SILENCE_MS = 15;
const RESPONSE_TIMEOUT_MS = 30_000;
/** Requests on one connection. */
const MAX_REUSES = 200;

/** The number of each result, by a name such as `http 400` or `grpc 3`. */
export type Results = Map<string, number>;

export interface Target {
  readonly http: number;
  readonly grpc: number;
}

abstract class Attacker {
  readonly grammar: Grammar;
  readonly results: Results;

  constructor(seed: number, results: Results) {
    this.grammar = new Grammar(seed);
    this.results = results;
  }

  count(name: string): void {
    this.results.set(name, (this.results.get(name) ?? 0) + 1);
  }

  /** Sends one message. Throws if its result is one that a client must never cause. */
  abstract attack(): Promise<void>;
  abstract close(): void;
}

/** Sends HTTP requests with or without TLS. */
export class HttpAttacker extends Attacker {
  readonly #port: number;
  readonly #isTls: boolean;
  #socket: Socket | undefined = undefined;
  #reuses = 0;

  constructor(seed: number, results: Results, port: number, isTls: boolean) {
    super(seed, results);
    this.#port = port;
    this.#isTls = isTls;
  }

  async #open(): Promise<Socket> {
    const address = { port: this.#port, host: '127.0.0.1' };
    const socket = this.#isTls
      ? connectTls({ ...address, rejectUnauthorized: false })
      : connect(address);
    await once(socket, this.#isTls ? 'secureConnect' : 'connect');
    socket.on('error', () => {});
    this.#reuses = 0;
    return socket;
  }

  async attack(): Promise<void> {
    const { bytes, isFramed } = httpRequest(this.grammar);
    if (this.#socket === undefined || this.#socket.destroyed || !this.#socket.writable) {
      this.#socket = await this.#open();
    }
    const socket = this.#socket;
    const text = await exchange(socket, bytes, isFramed);
    const isOver = !isFramed || ++this.#reuses > MAX_REUSES || /\r\nconnection: close/i.test(text);
    if (isOver) this.close();
    const name = this.#isTls ? 'https' : 'http';
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);
    this.count(`${name} ${status}`);
    // A connection may be closed between two requests; a broken request may get no response.
    const isExpected =
      (status >= 200 && status < 500) || (status === 0 && (!isFramed || text === ''));
    if (!isExpected)
      throw new Error(`${name} ${status} to ${excerpt(bytes)}\n${text.slice(0, 500)}`);
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }
}

const excerpt = (bytes: Buffer): string => JSON.stringify(bytes.toString('latin1').slice(0, 1000));

/** Returns whether the text is a complete response. */
function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, end))?.[1];
  return length !== undefined && text.length >= end + 4 + Number(length);
}

function exchange(socket: Socket, bytes: Buffer, needsResponse: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const end = (error?: Error): void => {
      clearTimeout(timer);
      socket.off('data', read);
      socket.off('close', end);
      if (error instanceof Error) reject(error);
      else resolve(text);
    };
    const onTime = (): void =>
      end(needsResponse ? new Error(`no response to ${excerpt(bytes)}`) : undefined);
    const timer = setTimeout(onTime, needsResponse ? RESPONSE_TIMEOUT_MS : SILENCE_MS);
    const read = (chunk: Buffer): void => {
      text += chunk.toString('latin1');
      if (
        isWhole(text) ||
        (/^HEAD/.test(bytes.toString('latin1', 0, 4)) && text.includes('\r\n\r\n'))
      )
        end();
    };
    socket.on('data', read);
    socket.once('close', end);
    socket.write(bytes);
  });
}

const METHODS = [
  '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/None',
  '/',
];
/** OK and client errors: INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED. */
const GRPC_STATUSES = ['0', '3', '5', '8', '12'];

/** Sends invalid messages on valid gRPC streams, and invalid frames; with or without TLS. */
export class GrpcAttacker extends Attacker {
  readonly #port: number;
  readonly #isTls: boolean;
  #session: ClientHttp2Session | undefined = undefined;
  #reuses = 0;

  constructor(seed: number, results: Results, port: number, isTls: boolean) {
    super(seed, results);
    this.#port = port;
    this.#isTls = isTls;
  }

  async attack(): Promise<void> {
    const name = this.#isTls ? 'grpcs' : 'grpc';
    if (!this.#isTls && this.grammar.chance(0.1)) {
      await this.#sendFrames();
      this.count('frames');
      return;
    }
    const session = await this.#sessionNow();
    const status = await this.#call(session);
    this.count(`${name} ${status}`);
    if (++this.#reuses > MAX_REUSES) this.close();
    const isHttp = /^http 4\d\d$/.test(status);
    if (!GRPC_STATUSES.includes(status) && !isHttp) throw new Error(`${name}: status ${status}`);
  }

  async #sessionNow(): Promise<ClientHttp2Session> {
    if (this.#session !== undefined && !this.#session.closed && !this.#session.destroyed) {
      return this.#session;
    }
    const scheme = this.#isTls ? 'https' : 'http';
    const session = connectHttp2(`${scheme}://127.0.0.1:${this.#port}`, {
      rejectUnauthorized: false,
    });
    session.on('error', () => {});
    await once(session, 'remoteSettings');
    this.#session = session;
    this.#reuses = 0;
    return session;
  }

  #call(session: ClientHttp2Session): Promise<string> {
    const { grammar } = this;
    const type = grammar.chance(0.95) ? 'application/grpc' : grammar.one(['text/plain', '']);
    const method = grammar.chance(0.98) ? 'POST' : grammar.one(['GET', 'PUT']);
    const more = grammar.chance(0.05) ? { 'grpc-encoding': grammar.one(['gzip', 'x', '']) } : {};
    const head = {
      ':method': method,
      ':path': grammar.one(METHODS),
      'content-type': type,
      ...more,
    };
    return new Promise((resolve, reject) => {
      const stream = session.request(head);
      const timer = setTimeout(
        () => reject(new Error('no response to a call')),
        RESPONSE_TIMEOUT_MS,
      );
      let status = '';
      const read = (fields: Record<string, unknown>): void => {
        if (fields['grpc-status'] !== undefined) status = String(fields['grpc-status']);
        else if (Number(fields[':status'] ?? 200) !== 200) status = `http ${fields[':status']}`;
      };
      stream.on('response', read as never);
      stream.on('trailers', read as never);
      stream.on('error', () => {});
      stream.on('close', () => {
        clearTimeout(timer);
        resolve(status);
      });
      stream.resume();
      stream.end(method === 'GET' ? undefined : grpcMessage(grammar));
    });
  }

  /** Sends invalid HTTP/2 frames. */
  async #sendFrames(): Promise<void> {
    const socket = connect(this.#port, '127.0.0.1');
    await once(socket, 'connect');
    socket.on('error', () => {});
    socket.resume();
    socket.write(http2Bytes(this.grammar));
    await new Promise((resolve) => setTimeout(resolve, SILENCE_MS));
    socket.destroy();
  }

  close(): void {
    this.#session?.destroy();
    this.#session = undefined;
  }
}

/** Sends TLS handshakes with a few mutated bytes. */
export class HandshakeAttacker extends Attacker {
  readonly #ports: readonly number[];
  readonly #hello: Buffer;

  constructor(seed: number, results: Results, ports: readonly number[], hello: Buffer) {
    super(seed, results);
    this.#ports = ports;
    this.#hello = hello;
  }

  async attack(): Promise<void> {
    const socket = connect(this.grammar.one(this.#ports), '127.0.0.1');
    await once(socket, 'connect');
    socket.on('error', () => {});
    socket.resume();
    socket.write(this.grammar.mutatedBytes(this.#hello));
    await new Promise((resolve) => setTimeout(resolve, SILENCE_MS));
    socket.destroy();
    this.count('handshake');
  }

  close(): void {}
}
