/** Requests and answers as Node's own server has them, which several frameworks pass on. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { contained, emitWarning, type Warning } from '../warning.ts';
import { joinedField } from './headers.ts';
import type { ResponseOutcome } from './options.ts';
import type { DenialResponse, RequestDecision, RequestInfo } from './request-limiter.ts';

/** Finds the address of a client, if it is the framework that was told whom to trust. */
export type AddressFinder<R> = (request: R) => string | undefined;

/** Reads a header that may have been changed since it came in. */
type HeaderReader<R> = (request: R, name: string) => string | undefined;

/** The address at the other end of a socket, read once: a connection has many requests. */
const ADDRESS = Symbol('address');

type Connection = (IncomingMessage['socket'] & { [ADDRESS]?: string | undefined }) | null;

function addressOf(socket: Connection | undefined): string | undefined {
  if (!socket) return undefined;
  if (socket[ADDRESS] === undefined) socket[ADDRESS] = socket.remoteAddress;
  return socket[ADDRESS];
}

/**
 * What Node tells about a request, whatever a framework has made of it. A request of Express is
 * an object like no other, so that reading anything of it is slow: only what is needed is read.
 */
export class NodeRequestInfo<R> implements RequestInfo<R> {
  readonly request: R;
  /** Read at once: when something was waited for, the client may be gone and its address too. */
  readonly socketAddress: string | undefined;
  readonly connection: object | undefined;
  readonly #raw: IncomingMessage;
  readonly #found: string | undefined;
  readonly #read: HeaderReader<R> | undefined;

  constructor(
    request: R,
    raw: IncomingMessage,
    find?: AddressFinder<R>,
    socket: IncomingMessage['socket'] | null = raw.socket,
    read?: HeaderReader<R>,
  ) {
    this.request = request;
    this.#raw = raw;
    this.#read = read;
    // Where no proxy has said anything, a framework has nothing to find.
    this.#found = find !== undefined && this.isForwarded ? find(request) : undefined;
    this.socketAddress = this.#found ?? addressOf(socket);
    this.connection = find === undefined ? (socket ?? undefined) : undefined;
  }

  get isForwarded(): boolean {
    const { 'x-forwarded-for': list, forwarded } = this.#raw.headers;
    return list !== undefined || forwarded !== undefined;
  }

  header(name: string): string | undefined {
    // For an address that was found the headers have been read, and are not to be read again.
    if (this.#found !== undefined && isForwarding(name)) return undefined;
    if (this.#read !== undefined && !isForwarding(name)) return this.#read(this.request, name);
    const value = this.#raw.headers[name];
    // Several lines are one list.
    return Array.isArray(value) ? value.join(', ') : value;
  }
}

/** Tells, once, of a framework's setting that believes whoever asks. */
export function trustWarning(
  setting: string,
  onWarning: (warning: Warning) => void = emitWarning,
): () => void {
  let isTold = false;
  return () => {
    if (isTold) return;
    isTold = true;
    const message =
      `${setting} is true, which believes anybody's X-Forwarded-For: clients choose their own ` +
      'address, and with it their limit. Set the number of proxies, such as 1.';
    contained(onWarning)({ code: 'WARN_TRUSTS_EVERYBODY', message });
  };
}

/** Whether a header tells who is behind a proxy. */
function isForwarding(name: string): boolean {
  return name === 'x-forwarded-for' || name === 'forwarded';
}

/** Sets the fields of a verdict, unless the answer has begun: then nothing can be set any more. */
export function setFields(response: ServerResponse, { fields }: RequestDecision<never>): void {
  if (fields.length === 0) return;
  try {
    // Asked for like this because frameworks do so too: of Express's answers each name that is read
    // for the first time is slow.
    const isFirst = response.getHeader(fields[0][0]) === undefined;
    for (const { 0: name, 1: value } of fields) {
      response.setHeader(name, isFirst ? value : joinedField(response.getHeader(name), value));
    }
  } catch (error) {
    if (!response.headersSent) throw error;
  }
}

/** Answers a request that does not pass. */
export function refuse(
  response: ServerResponse,
  { status, contentType, body }: DenialResponse,
): void {
  response.statusCode = status;
  response.setHeader('Content-Type', contentType);
  response.setHeader('Content-Length', Buffer.byteLength(body));
  response.end(body);
}

/** Calls `over` when the answer is out, or when the client has gone before that. */
export function whenOver<R>(
  request: R,
  response: ServerResponse,
  over: (outcome: ResponseOutcome<R>) => void,
): void {
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    over({
      request,
      status: response.statusCode,
      finished: response.writableFinished,
      bytes: bytesOf(response),
    });
  };
  response.once('finish', end);
  response.once('close', end);
}

/** How long an answer says it is. Node keeps that apart where it was not set as a field. */
export function bytesOf(response: ServerResponse): number | undefined {
  const { _contentLength: kept } = response as { _contentLength?: unknown };
  const length = response.getHeader('content-length') ?? kept ?? undefined;
  return length === undefined ? undefined : Number(length);
}
