/** Talks to a running service, and says in words what is wrong when that does not work. */
import { readFileSync } from 'node:fs';
import { type IncomingHttpHeaders, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { Option } from 'commander';
import { type Environment, Failure, visible } from './output.ts';

export const DEFAULT_URL = 'http://127.0.0.1:8080';
const PATIENCE_MS = 10_000;
/** What it is called when the answer to a greeting of TLS is none of TLS. */
const NO_TLS = /^(?:EPROTO|ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG)$/;

/** The options of all commands that ask a service. */
export const clientOptions = (): readonly Option[] => [
  new Option('--url <url>', `the service (SLUICE_URL; default ${DEFAULT_URL})`),
  new Option('--token <token>', 'the admin token (SLUICE_ADMIN_TOKEN)'),
  new Option('--token-file <file>', 'a file with it (SLUICE_ADMIN_TOKEN_FILE)').conflicts('token'),
  new Option('--json', "print the service's own answer"),
];

export interface ClientOptions {
  readonly url?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

export interface Answer {
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

  /** Where the service is. */
  get url(): string {
    return this.#url;
  }

  /** What a service answers, unless it refuses to: then why. */
  async ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await this.#answer(method, path, body);
    const isJson = answer.headers['content-type']?.startsWith('application/json');
    if (isJson && answer.body !== undefined) return answer;
    throw this.#otherThan(answer);
  }

  /** The same for what is no JSON, such as metrics. */
  async askText(path: string): Promise<string> {
    const answer = await this.#answer('GET', path, undefined);
    if (answer.status === 200 && answer.headers['content-type']?.startsWith('text/plain')) {
      return answer.text;
    }
    throw this.#otherThan(answer);
  }

  async #answer(method: string, path: string, body: unknown): Promise<Answer> {
    const answer = await this.#send(method, path, body).catch((error) => {
      throw this.#unreachable(error);
    });
    const { status, headers, body: found } = answer;
    if (headers['content-type']?.startsWith('application/problem+json') && isProblem(found)) {
      if (found.code === 'ERR_NOT_FOUND' && this.#hasPath) throw this.#withPath();
      throw new Failure(refusalText(status, found, this.#token !== undefined));
    }
    return answer;
  }

  /** A proxy may have the service under a path, so one is wrong only if nothing is there. */
  get #hasPath(): boolean {
    return new URL(this.#url).pathname !== '/';
  }

  #withPath(): Failure {
    const { origin } = new URL(this.#url);
    return new Failure(
      `Expected --url without a path, such as ${origin}, got \`${visible(this.#url)}\`, where ` +
        'nothing is found',
    );
  }

  #otherThan({ status, headers }: Answer): Failure {
    if (status === 404 && this.#hasPath) return this.#withPath();
    const type = visible(headers['content-type'] ?? 'no type');
    return new Failure(
      `Expected a Sluice service at ${this.#url}, got an answer ${status} of ${type}`,
    );
  }

  /** By hand, because `fetch` never settles where a connection ends without an answer. */
  #send(method: string, path: string, body: unknown): Promise<Answer> {
    const headers: Record<string, string> = {};
    if (this.#token !== undefined) headers.authorization = `Bearer ${bytes(this.#token)}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const request = this.#url.startsWith('https:') ? requestHttps : requestHttp;
    const signal = AbortSignal.timeout(PATIENCE_MS);
    return new Promise((resolve, reject) => {
      const sent = request(this.#url + path, { method, headers, signal, agent: false });
      sent.on('response', (message) => answerOf(message).then(resolve, reject));
      sent.on('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  #unreachable(error: unknown): Failure {
    const { name, message, code } = error as NodeJS.ErrnoException;
    if (name === 'AbortError') {
      return new Failure(`${this.#url} did not answer within ${PATIENCE_MS / 1000} s.`);
    }
    if (code === 'ECONNREFUSED') {
      return new Failure(
        `Nobody listens at ${this.#url}. Start a service there with \`sluice serve\`, or say ` +
          'where it is with --url or SLUICE_URL.',
      );
    }
    const why = code ?? message;
    if (this.#url.startsWith('https:') && NO_TLS.test(why)) {
      const plain = this.#url.replace('https:', 'http:');
      return new Failure(`Cannot reach ${this.#url} (${why}): it may not speak TLS: try ${plain}`);
    }
    return new Failure(
      `Cannot reach ${this.#url} (${why}). Say where the service is with --url or SLUICE_URL.`,
    );
  }
}

async function answerOf(message: IncomingMessage): Promise<Answer> {
  let text = '';
  for await (const piece of message.setEncoding('utf8')) text += piece;
  const { statusCode = 0, statusMessage = '', headers } = message;
  return { status: statusCode, statusText: statusMessage, headers, text, body: parsed(text) };
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
    throw new Failure(`Expected a file that can be read at \`${visible(file)}\`, got ${code}`);
  }
}

/** Headers are bytes, and the service takes them for UTF-8. */
const bytes = (text: string): string => Buffer.from(text).toString('latin1');

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isProblem = (body: unknown): body is Problem =>
  typeof (body as Partial<Problem> | undefined)?.detail === 'string';

function refusalText(status: number, { detail, code }: Problem, hasToken: boolean): string {
  const what = visible(code === undefined ? detail : `${detail} (${code})`);
  if (status !== 401) return what;
  return hasToken
    ? `The service does not take this admin token. ${what}`
    : `This takes the admin token: --token-file, --token or SLUICE_ADMIN_TOKEN. ${what}`;
}
