/** Requests as bytes on a connection, for those that no client would send. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  /** 0 if the connection closed without a response. */
  readonly status: number;
  readonly text: string;
  /** Whether the server closed the connection, or the wait was over first. */
  readonly closed: boolean;
}

export const statusOf = (text: string): number =>
  Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);

/** Whether a response is complete by its headers. */
export function isWhole(text: string): boolean {
  const head = text.indexOf('\r\n\r\n');
  if (head < 0) return false;
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, head)) ?? [];
  return length !== undefined && Buffer.byteLength(text.slice(head + 4)) >= Number(length);
}

export async function open(port: number, host = '127.0.0.1'): Promise<Socket> {
  const socket = connect(port, host);
  await once(socket, 'connect');
  // What happens to it from now on is read from what came.
  socket.on('error', () => {});
  return socket;
}

/** Sends all pieces, one after the other, and waits until the server closes or the time is up. */
export async function exchange(
  port: number,
  pieces: readonly (string | Buffer)[],
  {
    waitMs = 10_000,
    until = () => false,
  }: { waitMs?: number; until?: (text: string) => boolean } = {},
): Promise<RawAnswer> {
  const socket = await open(port);
  let text = '';
  const answer = new Promise<RawAnswer>((resolve) => {
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
  return answer;
}

export const headOf = (method: string, path: string, ...fields: readonly string[]): string =>
  [`${method} ${path} HTTP/1.1`, 'Host: 127.0.0.1', ...fields, '', ''].join('\r\n');

/** A check as bytes. */
export function checkText(body: unknown, ...fields: readonly string[]): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const length = `Content-Length: ${Buffer.byteLength(text)}`;
  return headOf('POST', '/v1/check', length, ...fields) + text;
}
