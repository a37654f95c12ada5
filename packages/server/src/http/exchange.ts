/** One request and its answer: reading bodies within bounds, and writing JSON and problems. */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { type ErrorCode, SluiceError } from 'sluice';

/** Larger bodies are refused before they are read to the end. */
export const LARGEST_BODY_BYTES = 1024 * 1024;
/** What is nested deeper means nothing to anybody here. */
export const DEEPEST_BODY = 16;

/** Codes of the service itself, beside the engine's. */
export type ServiceErrorCode =
  | ErrorCode
  | 'ERR_INVALID_BODY'
  | 'ERR_BODY_TOO_LARGE'
  | 'ERR_BODY_TOO_DEEP'
  | 'ERR_NOT_FOUND'
  | 'ERR_METHOD_NOT_ALLOWED'
  | 'ERR_UNAUTHORIZED'
  | 'ERR_CROSS_SITE'
  | 'ERR_CONFIG'
  | 'ERR_INTERNAL';

/** What a caller did wrong, or could not be given, as a status and a code. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly code: ServiceErrorCode,
    message: string,
    /** Where in the body, as a JSON pointer: `/checks/3/cost`. */
    readonly pointer?: string,
    readonly fields: OutgoingHttpHeaders = {},
  ) {
    super(message);
  }
}

export const badRequest = (code: ServiceErrorCode, message: string, pointer?: string): HttpError =>
  new HttpError(400, code, message, pointer);

/** The status that an error of the engine is answered with: it is the caller's, or the store's. */
export function asHttpError(error: unknown, pointer?: string): HttpError {
  if (error instanceof HttpError) return error;
  if (!(error instanceof SluiceError)) {
    return new HttpError(500, 'ERR_INTERNAL', 'Something went wrong here; the log says what');
  }
  const status = error.code === 'ERR_STORE_UNAVAILABLE' ? 503 : 400;
  return new HttpError(status, error.code, error.message, pointer);
}

const TITLES: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  413: 'Content Too Large',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

const JSON_TYPE = 'application/json';

export class Exchange {
  #query: URLSearchParams | undefined = undefined;
  /** What the path's places stand for: `/v1/keys/:policy/:key`. */
  params: Readonly<Record<string, string>> = {};

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly path: string,
    /** What follows the `?`, or nothing. */
    readonly search: string,
  ) {}

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.search);
    return this.#query;
  }

  /** Whether a query asks for something: `?enforce`, `?enforce=true`, but not `?enforce=false`. */
  flag(name: string): boolean {
    if (this.search === '') return false;
    const value = this.query.get(name);
    return value !== null && value !== 'false' && value !== '0';
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
    response.end(this.request.method === 'HEAD' ? undefined : text);
  }

  send(status: number, body: unknown, fields?: OutgoingHttpHeaders): void {
    this.sendText(status, JSON.stringify(body), fields);
  }

  /** Problem details (RFC 9457), with the code by which programs tell errors apart. */
  sendError({ status, code, message, pointer, fields }: HttpError): void {
    const { response, request } = this;
    if (response.headersSent || response.destroyed) return;
    const body = { type: 'about:blank', title: TITLES[status], status, code, detail: message };
    const text = JSON.stringify(pointer === undefined ? body : { ...body, pointer });
    // A body that was not read would be taken for the next request.
    const unread = request.complete ? {} : { connection: 'close' };
    this.sendText(status, text, { ...fields, ...unread }, 'application/problem+json');
  }

  /** The body as it came; refused if it is too large or not UTF-8. */
  readText(): Promise<string> {
    const { request } = this;
    const announced = Number(request.headers['content-length'] ?? 0);
    if (announced > LARGEST_BODY_BYTES) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let more: Buffer[] | undefined;
      let size = 0;
      request.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > LARGEST_BODY_BYTES) {
          request.removeAllListeners('data');
          request.pause();
          reject(tooLarge());
        } else if (first === undefined) first = chunk;
        else if (more === undefined) more = [first, chunk];
        else more.push(chunk);
      });
      request.on('end', () => {
        const bytes = more === undefined ? first : Buffer.concat(more);
        if (bytes === undefined) resolve('');
        else if (isUtf8(bytes)) resolve(bytes.toString());
        else reject(badRequest('ERR_INVALID_BODY', 'Expected the body to be UTF-8'));
      });
      request.on('error', () => reject(gone()));
      request.on('close', () => reject(gone()));
    });
  }

  /** The body as JSON; refused if it is not, or nested too deep. */
  async readJson(): Promise<unknown> {
    const text = await this.readText();
    if (isTooDeep(text)) {
      const message = `Expected the body to be nested at most ${DEEPEST_BODY} deep`;
      throw badRequest('ERR_BODY_TOO_DEEP', message);
    }
    try {
      return JSON.parse(text);
    } catch (error) {
      const came = text === '' ? 'nothing' : (error as Error).message;
      throw badRequest('ERR_INVALID_BODY', `Expected the body to be JSON, got ${came}`);
    }
  }
}

const tooLarge = (): HttpError =>
  new HttpError(
    413,
    'ERR_BODY_TOO_LARGE',
    `Expected a body of at most ${LARGEST_BODY_BYTES} bytes`,
  );

const gone = (): HttpError => badRequest('ERR_INVALID_BODY', 'The body was not sent to its end');

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
      if (++depth > DEEPEST_BODY) return true;
    } else if (code === 0x7d || code === 0x5d) depth--;
  }
  return false;
}
