/** HTTP client of a running service, with error messages that say how to fix the problem. */
import { readFileSync } from 'node:fs';
import { type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { Option } from 'commander';
import { type Environment, Failure, visible } from './output.ts';

export const DEFAULT_URL = 'http://127.0.0.1:8080';
const TIMEOUT_MS = 10_000;
/** Error codes of a TLS handshake with a server that does not support TLS. */
const NO_TLS = /^(?:EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/;

/** Options of all commands that call a service. */
export const clientOptions = (): readonly Option[] => [
  new Option('--url <url>', `service URL (env: SLUICE_URL, default: ${DEFAULT_URL})`),
  new Option('--token <token>', 'admin token (env: SLUICE_ADMIN_TOKEN)'),
  new Option(
    '--token-file <file>',
    'file with the admin token (env: SLUICE_ADMIN_TOKEN_FILE)',
  ).conflicts('token'),
  new Option('--json', 'print the JSON response of the service'),
];

export interface ClientOptions {
  readonly url?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

export interface ServiceResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: unknown;
}

interface Problem {
  readonly detail: string;
  readonly code?: string;
}

export class Client {
  readonly #url: string;
  readonly #token: string | undefined;

  constructor(options: ClientOptions, environment: Environment) {
    this.#url = urlOf(options.url ?? (environment.SLUICE_URL || DEFAULT_URL));
    this.#token = tokenOf(options, environment);
  }

  get url(): string {
    return this.#url;
  }

  /**
   * Sends a request. Resolves to the response if it has JSON. Throws a `Failure` for a problem
   * document and for any other response.
   */
  async request(method: string, path: string, body?: unknown): Promise<ServiceResponse> {
    const response = await this.#sendAndCheck(method, path, body);
    const isJson = response.headers['content-type']?.startsWith('application/json');
    if (isJson && response.body !== undefined) return response;
    throw this.#unexpected(response);
  }

  /** Resolves to the body of a plain text response, such as metrics. */
  async requestText(path: string): Promise<string> {
    const response = await this.#sendAndCheck('GET', path, undefined);
    if (response.status === 200 && response.headers['content-type']?.startsWith('text/plain')) {
      return response.text;
    }
    throw this.#unexpected(response);
  }

  async #sendAndCheck(method: string, path: string, body: unknown): Promise<ServiceResponse> {
    const response = await this.#send(method, path, body).catch((error) => {
      throw this.#unreachable(error);
    });
    const { status, headers, body: found } = response;
    if (headers['content-type']?.startsWith('application/problem+json') && isProblem(found)) {
      if (found.code === 'ERR_NOT_FOUND' && this.#hasPath) throw this.#wrongPath();
      throw new Failure(problemText(status, found, this.#token !== undefined));
    }
    return response;
  }

  /**
   * True if the URL has a path. A proxy may serve Sluice under a path, so the path is reported as
   * an error only after a 404.
   */
  get #hasPath(): boolean {
    return new URL(this.#url).pathname !== '/';
  }

  #wrongPath(): Failure {
    const { origin } = new URL(this.#url);
    return new Failure(
      `Expected --url without a path, such as ${origin}, got \`${visible(this.#url)}\`, ` +
        'which responds with 404',
    );
  }

  #unexpected({ status, headers }: ServiceResponse): Failure {
    if (status === 404 && this.#hasPath) return this.#wrongPath();
    const type = visible(headers['content-type'] ?? 'no content type');
    return new Failure(
      `Expected a Sluice service at ${this.#url}, got status ${status} with ${type}`,
    );
  }

  /**
   * Sends a request. Does not use `fetch`, whose promise never settles if the connection ends
   * without a response.
   */
  #send(method: string, path: string, body: unknown): Promise<ServiceResponse> {
    const headers: Record<string, string> = {};
    if (this.#token !== undefined) headers.authorization = `Bearer ${headerValue(this.#token)}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const request = this.#url.startsWith('https:') ? requestHttps : requestHttp;
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    return new Promise((resolve, reject) => {
      const sent = request(this.#url + path, { method, headers, signal, agent: false });
      sent.on('response', (message) => readResponse(message).then(resolve, reject));
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  #unreachable(error: unknown): Failure {
    const { name, message, code } = error as NodeJS.ErrnoException;
    if (name === 'AbortError') {
      return new Failure(`${this.#url} did not respond within ${TIMEOUT_MS / 1000} s.`);
    }
    if (code === 'ECONNREFUSED') {
      return new Failure(
        `Connection refused by ${this.#url}. Start a service with \`sluice serve\`, or set its ` +
          'address with --url or SLUICE_URL.',
      );
    }
    const why = code ?? message;
    if (this.#url.startsWith('https:') && NO_TLS.test(why)) {
      const plain = this.#url.replace('https:', 'http:');
      return new Failure(
        `Cannot reach ${this.#url} (${why}): it may not support TLS. Try ${plain}`,
      );
    }
    return new Failure(
      `Cannot reach ${this.#url} (${why}). Set the service address with --url or SLUICE_URL.`,
    );
  }
}

/**
 * Encodes a path segment. Throws for `.` and `..`, because URL parsers remove them, even if they
 * are encoded.
 */
export function pathSegment(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return encodeURIComponent(text);
  throw new Failure(`Expected a name other than \`.\` and \`..\`, got \`${text}\``);
}

async function readResponse(message: IncomingMessage): Promise<ServiceResponse> {
  let text = '';
  for await (const piece of message.setEncoding('utf8')) text += piece;
  const { statusCode = 0, statusMessage = '', headers } = message;
  return { status: statusCode, statusText: statusMessage, headers, text, body: parseJson(text) };
}

function urlOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol)) return given.replace(/\/+$/, '');
  throw new Failure(`Expected --url to be a URL such as ${DEFAULT_URL}, got \`${visible(given)}\``);
}

function tokenOf(
  { token, tokenFile }: ClientOptions,
  environment: Environment,
): string | undefined {
  if (token !== undefined) return token;
  const file = tokenFile ?? (environment.SLUICE_ADMIN_TOKEN_FILE || undefined);
  if (tokenFile === undefined && environment.SLUICE_ADMIN_TOKEN) {
    return environment.SLUICE_ADMIN_TOKEN;
  }
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Failure(`Expected a readable file at \`${visible(file)}\`, got ${code}`);
  }
}

/** Returns `text` with one character per UTF-8 byte, because Node.js writes headers as latin1. */
const headerValue = (text: string): string => Buffer.from(text).toString('latin1');

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isProblem = (body: unknown): body is Problem =>
  typeof (body as Partial<Problem> | undefined)?.detail === 'string';

function problemText(status: number, { detail, code }: Problem, hasToken: boolean): string {
  const what = visible(code === undefined ? detail : `${detail} (${code})`);
  if (status !== 401) return what;
  return hasToken
    ? `The service rejected the admin token. ${what}`
    : `Admin token required: set --token-file, --token or SLUICE_ADMIN_TOKEN. ${what}`;
}
