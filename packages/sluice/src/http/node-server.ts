/** Requests and answers as Node's own server has them, which several frameworks pass on. */
import type {
  IncomingMessage,
  OutgoingHttpHeader,
  OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import { emitWarning, type Warning } from '../warning.ts';
import { joinedField } from './headers.ts';
import type { Outcome } from './options.ts';
import type { Facts, Field, Refusal, Verdict } from './request-limiter.ts';

/** Finds the address of a client, if it is the framework that was told whom to trust. */
export type AddressFinder<R> = (request: R) => string | undefined;

/**
 * What Node tells about a request, whatever a framework has made of it. A request of Express is
 * an object like no other, so that reading anything of it is slow, and nothing is read twice.
 */
export class NodeFacts<R> implements Facts<R> {
  readonly request: R;
  readonly isForwarded: boolean;
  /** Read at once: when something was waited for, the client may be gone and its address too. */
  readonly socketAddress: string | undefined;
  readonly #headers: IncomingMessage['headers'];
  readonly #found: string | undefined;

  constructor(
    request: R,
    raw: IncomingMessage,
    find?: AddressFinder<R>,
    socket: IncomingMessage['socket'] | null = raw.socket,
  ) {
    this.request = request;
    this.#headers = raw.headers;
    const { 'x-forwarded-for': list, forwarded } = this.#headers;
    this.isForwarded = list !== undefined || forwarded !== undefined;
    // Where no proxy has said anything, a framework has nothing to find.
    this.#found = this.isForwarded ? find?.(request) : undefined;
    this.socketAddress = this.#found ?? socket?.remoteAddress;
  }

  header(name: string): string | undefined {
    // For an address that was found the headers have been read, and are not to be read again.
    if (this.#found !== undefined && isForwarding(name)) return undefined;
    const value = this.#headers[name];
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
    onWarning({ code: 'WARN_TRUSTS_EVERYBODY', message });
  };
}

/** Whether a header tells who is behind a proxy. */
export function isForwarding(name: string): boolean {
  return name === 'x-forwarded-for' || name === 'forwarded';
}

/** Sets the fields of a verdict, unless the answer has begun: then nothing can be set any more. */
export function setFields(response: ServerResponse, { fields }: Verdict<never>): void {
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

/** The fields that are to go out with the head of an answer. */
const FIELDS = Symbol('fields');

type Announcing = ServerResponse & { [FIELDS]?: readonly Field[] };

/**
 * Has the fields of a verdict sent with the head of an answer, whatever that says. Where all of it
 * is written in one call, as @hono/node-server does, Node has a fast way to do so, which is closed
 * as soon as one field has been set before; and a list is what it reads fastest. Somebody else who
 * listens for the head in the same way is left with an object if it was one.
 */
export function sendFields(response: Announcing, { fields }: Verdict<never>): void {
  if (fields.length === 0 || response.headersSent) return;
  const before = response[FIELDS];
  response[FIELDS] = before === undefined ? fields : joinedFields(before, fields);
  if (before !== undefined) return;
  const isNodes = !Object.hasOwn(response, 'writeHead');
  const writeHead = response.writeHead as (status: number, ...more: unknown[]) => ServerResponse;
  response.writeHead = function (this: Announcing, status: number, text: unknown, more: Head) {
    const hasText = typeof text === 'string';
    const given = hasText ? more : (more ?? (text as Head));
    const list = namesAndValues(given);
    for (const { 0: name, 1: value } of this[FIELDS]!) addField(this, list, name, value);
    const head = isNodes || Array.isArray(given) ? list : asObject(list);
    return hasText ? writeHead.call(this, status, text, head) : writeHead.call(this, status, head);
  } as ServerResponse['writeHead'];
}

type Head = OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined;

/** What limiters in a row say, each field once. */
function joinedFields(before: readonly Field[], later: readonly Field[]): readonly Field[] {
  const all = new Map(before);
  for (const [name, value] of later) all.set(name, joinedField(all.get(name), value));
  return [...all];
}

/** The fields that an answer is given with its status, names and values in turn. */
function namesAndValues(head: Head): OutgoingHttpHeader[] {
  if (Array.isArray(head)) {
    return Array.isArray(head[0]) ? (head.flat() as OutgoingHttpHeader[]) : [...head];
  }
  const all: OutgoingHttpHeader[] = [];
  if (head) for (const name of Object.keys(head)) all.push(name, head[name]!);
  return all;
}

function asObject(list: readonly OutgoingHttpHeader[]): OutgoingHttpHeaders {
  const all: OutgoingHttpHeaders = {};
  for (let at = 0; at < list.length; at += 2) all[list[at] as string] = list[at + 1];
  return all;
}

/** Adds a field to a head. What the answer says itself comes after it, or counts in its place. */
function addField(
  response: ServerResponse,
  head: OutgoingHttpHeader[],
  name: string,
  value: string,
): void {
  for (let place = 0; place < head.length; place += 2) {
    const other = head[place] as string;
    if (other.length !== name.length || other.toLowerCase() !== name.toLowerCase()) continue;
    head[place + 1] = joinedField(value, String(head[place + 1]));
    return;
  }
  head.push(name, joinedField(response.getHeader(name), value));
}

/** Answers a request that does not pass. */
export function refuse(response: ServerResponse, { status, contentType, body }: Refusal): void {
  response.statusCode = status;
  response.setHeader('Content-Type', contentType);
  response.setHeader('Content-Length', Buffer.byteLength(body));
  response.end(body);
}

/** Calls `over` when the answer is out, or when the client has gone before that. */
export function whenOver<R>(
  request: R,
  response: ServerResponse,
  over: (outcome: Outcome<R>) => void,
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
