/**
 * Sends generated requests over HTTP, each at its generated time. The requests have the headers of
 * a proxy, so that the service distinguishes the generated clients.
 */
import { Agent, type ClientRequest, request as requestHttp } from 'node:http';
import { systemClock } from 'sluice';
import type { GeneratedRequest } from 'sluice-traffic';
import { loopbackLookup } from './loopback.ts';

const MAX_SOCKETS = 64;
/** Sending pauses while this many requests are open. */
const MAX_IN_FLIGHT = 256;
const TIMEOUT_MS = 10_000;
/** Maximum number of clients that are counted individually. */
const MAX_CLIENTS = 10_000;

export interface LoadOptions {
  /** If the URL ends with `/`, the path of each request is appended. Otherwise it is used as is. */
  readonly url: URL;
  readonly requests: Iterator<GeneratedRequest>;
  /** Time of the generated traffic that corresponds to the start of sending. */
  readonly startMs: number;
  readonly onResponse?: (request: GeneratedRequest, status: number) => void;
  readonly onFailure?: (request: GeneratedRequest) => void;
}

interface ClientCounts {
  sent: number;
  denied: number;
}

export interface LoadReport {
  readonly sent: number;
  readonly responses: number;
  /** Number of responses by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Number of requests without a response, by reason. */
  readonly failures: Readonly<Record<string, number>>;
  readonly clients: number;
  /**
   * True if there were more than `MAX_CLIENTS` clients. Only the first are counted individually.
   */
  readonly hasMoreClients: boolean;
  readonly tookMs: number;
  /** Time from the start to the first denial. */
  readonly firstDeniedMs: number | undefined;
  /** How much later than scheduled the last request was sent. */
  readonly lateMs: number;
  /** Clients with denials, most denied first. */
  readonly denied: readonly (Readonly<ClientCounts> & { readonly client: string })[];
}

/**
 * Returns true for 429 and 403. With `auth_request`, nginx responds with 403 to a denied request,
 * because it cannot respond with 429.
 */
export const isDenial = (status: number): boolean => status === 429 || status === 403;

export class Load {
  readonly #options: LoadOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  readonly #statuses = new Map<number, number>();
  readonly #failures = new Map<string, number>();
  readonly #clients = new Map<string, ClientCounts>();
  readonly #open = new Set<ClientRequest>();
  #next: GeneratedRequest | undefined = undefined;
  #startedMs = 0;
  #sent = 0;
  #responses = 0;
  #lateMs = 0;
  #firstDeniedMs: number | undefined = undefined;
  #isStopped = false;
  #hasMoreClients = false;
  #cancel = (): void => {};
  #ended = (): void => {};

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  /**
   * Sends the requests until there are no more or `stop` is called. Resolves when all sent requests
   * have ended.
   */
  run(): Promise<LoadReport> {
    this.#startedMs = systemClock.now();
    return new Promise((resolve) => {
      this.#ended = () => {
        this.#agent.destroy();
        resolve(this.report());
      };
      this.#advance();
      this.#sendDue();
    });
  }

  /** Stops sending and aborts open requests. */
  stop(): void {
    this.#isStopped = true;
    this.#next = undefined;
    this.#cancel();
    for (const each of this.#open) each.destroy();
    if (this.#open.size === 0) this.#ended();
  }

  report(): LoadReport {
    const denied = [...this.#clients]
      .filter(([, counts]) => counts.denied > 0)
      .map(([client, { sent, denied }]) => ({ client, sent, denied }))
      .sort((a, b) => b.denied - a.denied);
    return {
      sent: this.#sent,
      responses: this.#responses,
      statuses: Object.fromEntries(this.#statuses),
      failures: Object.fromEntries(this.#failures),
      clients: this.#clients.size,
      hasMoreClients: this.#hasMoreClients,
      tookMs: systemClock.now() - this.#startedMs,
      firstDeniedMs: this.#firstDeniedMs,
      lateMs: this.#lateMs,
      denied,
    };
  }

  #advance(): void {
    const { done, value } = this.#options.requests.next();
    this.#next = done ? undefined : value;
  }

  #sendDue(): void {
    this.#cancel();
    while (this.#next !== undefined && this.#open.size < MAX_IN_FLIGHT) {
      const dueMs = this.#startedMs + this.#next.timeMs - this.#options.startMs;
      const waitMs = dueMs - systemClock.now();
      if (waitMs > 0) {
        this.#cancel = systemClock.schedule(waitMs, () => this.#sendDue());
        return;
      }
      this.#lateMs = -waitMs;
      this.#send(this.#next);
      this.#advance();
    }
    if (this.#next === undefined && this.#open.size === 0) this.#ended();
  }

  #send(request: GeneratedRequest): void {
    const { url } = this.#options;
    const appendsPath = url.pathname.endsWith('/');
    const path = appendsPath ? url.pathname + request.target.slice(1) : url.pathname + url.search;
    const sent = requestHttp({
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port || 80,
      path,
      method: appendsPath ? request.method : 'GET',
      headers: headersOf(request),
      agent: this.#agent,
      lookup: loopbackLookup,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    this.#sent++;
    this.#open.add(sent);
    this.#countSent(request);
    sent.on('response', (response) => {
      response.resume();
      this.#countResponse(request, response.statusCode ?? 0);
    });
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (this.#isStopped) return;
      const why = error.name === 'AbortError' ? 'timeout' : (error.code ?? error.message);
      this.#failures.set(why, (this.#failures.get(why) ?? 0) + 1);
      this.#options.onFailure?.(request);
    });
    sent.on('close', () => {
      this.#open.delete(sent);
      this.#sendDue();
    });
    sent.end();
  }

  #countSent({ client }: GeneratedRequest): void {
    const counts = this.#clients.get(client);
    if (counts !== undefined) counts.sent++;
    else if (this.#clients.size < MAX_CLIENTS) this.#clients.set(client, { sent: 1, denied: 0 });
    else this.#hasMoreClients = true;
  }

  #countResponse(request: GeneratedRequest, status: number): void {
    this.#responses++;
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
    if (isDenial(status)) {
      this.#firstDeniedMs ??= systemClock.now() - this.#startedMs;
      const counts = this.#clients.get(request.client);
      if (counts !== undefined) counts.denied++;
    }
    this.#options.onResponse?.(request, status);
  }
}

/** Returns the headers that a proxy would send with a forward-auth request. */
function headersOf(request: GeneratedRequest): Record<string, string> {
  const { client, method, target, host, agent } = request;
  return {
    'user-agent': agent,
    'x-forwarded-for': client,
    'x-forwarded-method': method,
    'x-forwarded-uri': target,
    'x-forwarded-host': host,
    'x-forwarded-proto': 'http',
  };
}
