/** Requests and answers as Node's own server has them, which several frameworks pass on. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Outcome } from './options.ts';
import type { Facts, Verdict } from './request-limiter.ts';

/** The value of a header; several lines of it are one list. */
export function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

export function factsOf<R extends IncomingMessage>(request: R, address?: string): Facts<R> {
  return { request, ...found(request, address) };
}

/** Who asks: the socket, unless the framework was told whom to trust and has found an address. */
export function found(
  request: IncomingMessage,
  address: string | undefined,
): Omit<Facts<never>, 'request'> {
  if (address === undefined) {
    const header = (name: string): string | undefined => headerOf(request, name);
    return { socketAddress: request.socket?.remoteAddress, header };
  }
  // The headers have been read for it, and are not to be read again.
  const header = (name: string): string | undefined =>
    /^(?:x-forwarded-for|forwarded)$/i.test(name) ? undefined : headerOf(request, name);
  return { socketAddress: address, header };
}

/** Sets the fields of a verdict. Nothing can be set any more once the answer has begun. */
export function setFields(response: ServerResponse, { fields }: Verdict<never>): void {
  if (response.headersSent) return;
  for (const [name, value] of fields) {
    const before = response.getHeader(name);
    // Two limiters in a row: lists of policies are one list.
    const isList = typeof before === 'string' && before.startsWith('"') && value.startsWith('"');
    response.setHeader(name, isList ? `${before}, ${value}` : value);
  }
}

/** Answers a request that does not pass. */
export function refuse(response: ServerResponse, { rejection }: Verdict<never>): void {
  const { status, contentType, body } = rejection!;
  response.statusCode = status;
  response.setHeader('Content-Type', contentType);
  response.setHeader('Content-Length', Buffer.byteLength(body));
  response.end(body);
}

/** Calls `over` when the answer is out, or when the client has gone before that. */
export function whenOver<R extends IncomingMessage>(
  request: R,
  response: ServerResponse,
  over: (outcome: Outcome<R>) => void,
): void {
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    const length = response.getHeader('content-length');
    over({
      request,
      status: response.statusCode,
      finished: response.writableFinished,
      bytes: length === undefined ? undefined : Number(length),
    });
  };
  response.once('finish', end);
  response.once('close', end);
}
