/** Requests and responses of `node:http`, which Express, Koa, Fastify and Nest build on. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { emitWarning, type Warning, warnOnError } from '../warning.ts';
import type { ResponseOutcome } from './options.ts';
import type { Rejection } from './rejection.ts';
import type { RequestDecision, RequestInfo } from './request-decision.ts';
import { appendToList } from './structured-fields.ts';

/** Returns the client's address if the framework is configured to trust proxies. */
export type AddressFinder<R> = (request: R) => string | undefined;

type HeaderReader<R> = (request: R, name: string) => string | undefined;

/** Describes a Node request, which a framework may have wrapped. */
export class NodeRequestInfo<R> implements RequestInfo<R> {
  readonly request: R;
  /** Read in the constructor, because a closed socket no longer has its address. */
  readonly socketAddress: string | undefined;
  readonly isForwarded: boolean;
  readonly #raw: IncomingMessage;
  readonly #foundAddress: string | undefined;
  readonly #readHeader: HeaderReader<R> | undefined;

  /**
   * @param find returns the address that the framework found behind proxies
   * @param readHeader reads headers that middleware may have changed
   */
  constructor(
    request: R,
    raw: IncomingMessage,
    find?: AddressFinder<R>,
    readHeader?: HeaderReader<R>,
  ) {
    this.request = request;
    this.#raw = raw;
    this.#readHeader = readHeader;
    const { 'x-forwarded-for': forwardedFor, forwarded } = raw.headers;
    this.isForwarded = forwardedFor !== undefined || forwarded !== undefined;
    this.#foundAddress = find !== undefined && this.isForwarded ? find(request) : undefined;
    this.socketAddress = this.#foundAddress ?? raw.socket?.remoteAddress;
  }

  header(name: string): string | undefined {
    const isForwarding = name === 'x-forwarded-for' || name === 'forwarded';
    // The framework has already evaluated the forwarding headers.
    if (this.#foundAddress !== undefined && isForwarding) return undefined;
    if (this.#readHeader !== undefined && !isForwarding) {
      return this.#readHeader(this.request, name);
    }
    const value = this.#raw.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  }
}

/** Returns a function that warns once: `setting` trusts every proxy, and should be `advice`. */
export function trustWarning(
  setting: string,
  advice: string,
  onWarning: (warning: Warning) => void = emitWarning,
): () => void {
  let hasWarned = false;
  return () => {
    if (hasWarned) return;
    hasWarned = true;
    const message =
      `${setting} is true, so X-Forwarded-For is trusted from every client: clients can forge ` +
      `their address and evade limits. Set it to ${advice}.`;
    void warnOnError(onWarning)({ code: 'WARN_TRUSTS_EVERYBODY', message });
  };
}

/** Sets the rate-limit headers. Does nothing if the response's headers have been sent. */
export function setHeaders(response: ServerResponse, { headers }: RequestDecision<never>): void {
  if (headers.length === 0) return;
  try {
    const isFirst = response.getHeader(headers[0][0]) === undefined;
    // Destructured by index: `[name, value]` would run the array iterator for each header.
    for (const { 0: name, 1: value } of headers) {
      response.setHeader(name, isFirst ? value : appendToList(response.getHeader(name), value));
    }
  } catch (error) {
    if (!response.headersSent) throw error;
  }
}

/** Sends the response to a request that does not pass, unless a response has been sent. */
export function sendRejection(
  response: ServerResponse,
  { status, contentType, body }: Rejection,
): void {
  if (response.headersSent) return;
  response.statusCode = status;
  response.setHeader('Content-Type', contentType);
  response.setHeader('Content-Length', Buffer.byteLength(body));
  response.end(body);
}

/** Calls `settle` once, when the response is complete or the client has disconnected. */
export function settleOnEnd<R>(
  request: R,
  response: ServerResponse,
  settle: (outcome: ResponseOutcome<R>) => void,
): void {
  let hasEnded = false;
  const end = (finished: boolean): void => {
    if (hasEnded) return;
    hasEnded = true;
    settle({ request, status: response.statusCode, finished, bytes: bytesOf(response) });
  };
  response.once('finish', () => end(true));
  response.once('close', () => end(false));
  // The client may have disconnected while the store decided.
  if (isDestroyed(response)) end(response.writableFinished);
}

/** Whether the connection is closed. HTTP/2 responses have this state on their stream. */
function isDestroyed(response: ServerResponse): boolean {
  const { stream = response } = response as { stream?: { destroyed?: boolean } };
  return stream.destroyed === true;
}

/** Returns the Content-Length header as a number, or undefined if it is not set. */
function bytesOf(response: ServerResponse): number | undefined {
  const length = response.getHeader('content-length');
  return length === undefined ? undefined : Number(length);
}
