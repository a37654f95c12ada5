/** One request and its answer: reading bodies within bounds, and writing JSON and problems. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { systemClock } from 'sluice';
import { BodyShare } from './body-budget.ts';
import { badRequest, HttpError, problemBody } from './problems.ts';
import type { Session } from './sessions.ts';

export { asHttpError, badRequest, HttpError, type ServiceErrorCode } from './problems.ts';

/** Larger bodies are refused before they are read to the end. */
export const MAX_BODY_BYTES = 1024 * 1024;
/** What is nested deeper means nothing to anybody here. */
export const MAX_BODY_DEPTH = 16;

/** How much of a refused body is still taken in, so that its sender gets to read the answer. */
const LINGER_BYTES = 4 * MAX_BODY_BYTES;
const LINGER_MS = 1000;

const JSON_TYPE = 'application/json';
const PROBLEM_TYPE = 'application/problem+json';

const FLAGS: Readonly<Record<string, boolean>> = {
  '': true,
  true: true,
  1: true,
  false: false,
  0: false,
};

export const NO_SNIFFING: OutgoingHttpHeaders = { 'x-content-type-options': 'nosniff' };

const NO_PLACES: Readonly<Record<string, string>> = {};

/** As whom an admin asks: by the token, by a session, or as somebody on this machine. */
export type Caller =
  | { readonly as: 'token' | 'loopback'; readonly session?: undefined }
  | { readonly as: 'session'; readonly session: Session };

export class RequestContext {
  #query: URLSearchParams | undefined = undefined;
  /** What the path's places stand for: `/v1/keys/:policy/:key`. */
  params: Readonly<Record<string, string>> = NO_PLACES;
  /** Who was let in; undefined where everybody is. */
  caller: Caller | undefined = undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly path: string,
    /** What follows the `?`, or nothing. */
    readonly search: string,
  ) {}

  /** When the session ends that the request was let in by, so that a long answer ends with it. */
  get sessionExpiresAtMs(): number | undefined {
    return this.caller?.session?.expiresAtMs;
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.search);
    return this.#query;
  }

  /** Whether a query asks for something: `?enforce`, `?enforce=true`, but not `?enforce=false`. */
  flag(name: string): boolean {
    if (this.search === '') return false;
    const value = this.query.get(name);
    if (value === null) return false;
    if (Object.hasOwn(FLAGS, value)) return FLAGS[value];
    throw badRequest('ERR_INVALID_OPTION', `Expected \`${name}\` to be true or false`);
  }

  /** Refuses a misspelt query, which would otherwise silently mean the default. */
  checkQuery(...known: readonly string[]): void {
    if (this.search === '') return;
    for (const name of this.query.keys()) {
      if (known.includes(name)) continue;
      const what = known.length === 0 ? 'no query' : `only ${known.join(', ')} in the query`;
      throw badRequest('ERR_INVALID_OPTION', `Expected ${what}, got \`${name.slice(0, 60)}\``);
    }
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return typeof value === 'string' ? value : value?.join(', ');
  }

  /** Answers with JSON that is already text. */
  sendText(status: number, text: string, fields?: OutgoingHttpHeaders, type = JSON_TYPE): void {
    const { response } = this;
    const base = { 'content-type': type, 'content-length': Buffer.byteLength(text) };
    response.writeHead(status, fields === undefined ? base : { ...base, ...fields });
    // Two calls, because the head and the text then go out as one piece, and not as two and a none.
    if (this.request.method !== 'HEAD') response.write(text);
    response.end();
  }

  /** Answers with JSON that no browser takes for something else, wherever nobody is in a hurry. */
  send(status: number, body: unknown, fields?: OutgoingHttpHeaders): void {
    this.sendText(status, JSON.stringify(body), { ...NO_SNIFFING, ...fields });
  }

  /** Problem details, with the code by which programs tell errors apart. */
  sendError(error: HttpError): void {
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    const text = JSON.stringify(problemBody(error));
    const fields = { ...NO_SNIFFING, ...error.fields };
    if (!this.#hasMoreToCome()) this.sendText(error.status, text, fields, PROBLEM_TYPE);
    else this.#sendAndLinger(error, text);
  }

  /** Whether so much of the body is missing that reading it would be a favour. */
  #hasMoreToCome(): boolean {
    const { complete, headers } = this.request;
    if (complete) return false;
    return headers['transfer-encoding'] !== undefined || this.#announcedBytes > MAX_BODY_BYTES;
  }

  get #announcedBytes(): number {
    return Number(this.request.headers['content-length'] ?? 0);
  }

  /**
   * Answers at once and closes later. A connection that is closed while its other end still sends
   * is reset, and then the answer is lost on its way.
   */
  #sendAndLinger({ status, fields }: HttpError, text: string): void {
    const { request, response } = this;
    const base = { 'content-type': PROBLEM_TYPE, 'content-length': Buffer.byteLength(text) };
    response.writeHead(status, { ...base, ...NO_SNIFFING, ...fields, connection: 'close' });
    if (request.method === 'HEAD') response.flushHeaders();
    else response.write(text);
    let left = LINGER_BYTES;
    const cancel = systemClock.schedule(LINGER_MS, () => response.end());
    const end = (): void => {
      cancel();
      response.end();
    };
    request.on('data', ({ length }: Buffer) => {
      left -= length;
      if (left < 0) end();
    });
    request.on('end', end);
    request.on('close', end);
    request.resume();
  }

  /** The body as it came; refused if it is too large or not UTF-8. */
  readText(): Promise<string> {
    return new Promise((resolve, reject) => this.#receive(resolve, reject));
  }

  /** The body as JSON; refused if it is not, or nested too deep. */
  async readJson(): Promise<unknown> {
    return jsonOf(await this.readText());
  }

  /** The same for those who are asked most: `use` is called at once, without a promise between. */
  useJson(use: (body: unknown) => void | Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const receive = (text: string): void => {
        try {
          resolve(use(jsonOf(text)));
        } catch (error) {
          reject(error);
        }
      };
      this.#receive(receive, reject);
    });
  }

  #receive(receive: (text: string) => void, refuse: (error: HttpError) => void): void {
    const { request } = this;
    if (this.#announcedBytes > MAX_BODY_BYTES) {
      refuse(tooLarge());
      return;
    }
    let first: Buffer | undefined;
    let more: Buffer[] | undefined;
    let size = 0;
    let isRefused = false;
    const share = new BodyShare(this.response, request.socket.remoteAddress ?? '');
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_BODY_BYTES || !share.grow(size)) {
        isRefused = true;
        request.removeAllListeners('data');
        more = undefined;
        refuse(size > MAX_BODY_BYTES ? tooLarge() : tooBusy());
      } else if (first === undefined) first = chunk;
      else if (more === undefined) more = [first, chunk];
      else more.push(chunk);
    });
    request.on('end', () => {
      if (isRefused) return;
      const bytes = more === undefined ? first : Buffer.concat(more);
      const text = bytes?.toString() ?? '';
      // Invalid bytes decode to U+FFFD, so a text without it is valid. Avoids calling `isUtf8`
      // (26.7 to 26.3 us of CPU per check).
      if (!text.includes(REPLACEMENT) || isUtf8(bytes!)) receive(text);
      else refuse(badRequest('ERR_INVALID_BODY', 'Expected the body to be UTF-8'));
    });
    // Also if the connection is closed in the middle.
    request.on('error', () => refuse(gone()));
  }
}

function jsonOf(text: string): unknown {
  if (isTooDeep(text)) {
    const message = `Expected the body to be nested at most ${MAX_BODY_DEPTH} deep`;
    throw badRequest('ERR_BODY_TOO_DEEP', message);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    const came = text === '' ? 'nothing' : `an error: ${(error as Error).message}`;
    throw badRequest('ERR_INVALID_BODY', `Expected the body to be JSON, got ${came}`);
  }
}

const tooLarge = (): HttpError =>
  new HttpError(413, 'ERR_BODY_TOO_LARGE', `Expected a body of at most ${MAX_BODY_BYTES} bytes`);

const tooBusy = (): HttpError =>
  new HttpError(
    503,
    'ERR_TOO_BUSY',
    'The bodies of other requests take all memory that is reserved for them; retry later',
    undefined,
    { 'retry-after': '1' },
  );

const gone = (): HttpError => badRequest('ERR_INVALID_BODY', 'The body was not sent to its end');

const REPLACEMENT = '\ufffd';
const QUOTE = 34;
const BACKSLASH = 92;

/** Looks at the brackets alone, so that nothing is built of what will be refused. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let isInside = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (isInside) {
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) isInside = false;
    } else if (code === QUOTE) isInside = true;
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > MAX_BODY_DEPTH) return true;
    } else if (code === 0x7d || code === 0x5d) depth--;
  }
  return false;
}
