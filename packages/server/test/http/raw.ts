/** Sends requests as bytes, for requests that no client would send. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface RawResponse {
  /** 0 if the connection closed without a response. */
  readonly status: number;
  readonly text: string;
  /** Whether the server closed the connection before the timeout. */
  readonly closed: boolean;
}

export const statusOf = (text: string): number =>
  Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);

/** Returns whether a response is complete by its Content-Length. */
export function isWhole(text: string): boolean {
  const head = text.indexOf('\r\n\r\n');
  if (head < 0) return false;
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head)) ?? [];
  return length !== undefined && Buffer.byteLength(text.slice(head + 4)) >= Number(length);
}

export async function open(port: number, host = '127.0.0.1'): Promise<Socket> {
  const socket = connect(port, host);
  await once(socket, 'connect');
  // Tests read the received text and whether the connection is closed.
  socket.on('error', () => {});
  return socket;
}

/** Sends all pieces. Resolves when the server closes, `until` returns true, or `waitMs` is over. */
export async function exchange(
  port: number,
  pieces: readonly (string | Buffer)[],
  {
    waitMs = 10_000,
    until = () => false,
  }: { waitMs?: number; until?: (text: string) => boolean } = {},
): Promise<RawResponse> {
  const socket = await open(port);
  let text = '';
  const response = new Promise<RawResponse>((resolve) => {
    const end = (closed: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ status: statusOf(text), text, closed });
    };
    const timer = setTimeout(() => end(false), waitMs);
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      if (until(text)) end(false);
    });
    socket.on('close', () => end(true));
  });
  for (const piece of pieces) {
    if (!socket.writable) break;
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return response;
}

export const headOf = (method: string, path: string, ...fields: readonly string[]): string =>
  [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1', ...fields, '', ''].join('\r\n');

/** Returns a check request as text. */
export function checkText(body: unknown, ...fields: readonly string[]): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const length = `Content-Length: ${Buffer.byteLength(text)}`;
  return headOf('POST', '/v1/check', length, ...fields) + text;
}
