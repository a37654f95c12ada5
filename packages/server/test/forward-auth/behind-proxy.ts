/** An application behind a real proxy with a real service, configured by the shipped files. */
import { execFileSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
} from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import {
  type ProxyKind,
  type RunningProxy,
  startShippedProxy,
} from '../../../../tools/servers/proxies.mjs';
import { type Running, type RunningOptions, startRunning } from '../running.ts';

export const KINDS: readonly ProxyKind[] = ['nginx', 'caddy', 'haproxy'];

const folderOf = (name: string): string =>
  new URL(`../../../../examples/proxies/${name}/`, import.meta.url).pathname;

export const FILES: Readonly<Record<ProxyKind, string>> = {
  nginx: join(folderOf('nginx'), 'sluice.conf'),
  caddy: join(folderOf('caddy'), 'Caddyfile'),
  haproxy: join(folderOf('haproxy'), 'haproxy.cfg'),
};

export function ensureProxies(): void {
  const path = '../../../../tools/ensure-services';
  execFileSync(new URL(path, import.meta.url).pathname, [...KINDS]);
}

export interface SentRequest {
  readonly method?: string;
  readonly path?: string;
  /** A list of names and values in turn can repeat a header. */
  readonly headers?: Readonly<Record<string, string>> | readonly string[];
  readonly body?: string;
  /** The client address: one of the loopback addresses. */
  readonly from?: string;
}

export interface ReceivedResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The request that the application received, as it is in its response. */
export interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Identifies responses of the application. */
const MARK = randomUUID();

/** Responds with the received request. `/status/403` sets the status, `/dies` disconnects. */
function application(seen: string[], watch: (incoming: IncomingMessage) => void): Server {
  return createServer(async (incoming, response) => {
    seen.push(incoming.url!);
    watch(incoming);
    if (incoming.url === '/dies') return incoming.socket.destroy();
    let body = '';
    for await (const part of incoming.setEncoding('utf8')) body += part;
    const { method, url, headers } = incoming;
    const [, status = '200'] = /^\/status\/(\d+)/.exec(url!) ?? [];
    response.writeHead(Number(status), { 'x-mark': MARK });
    return response.end(JSON.stringify({ method, url, headers, body }));
  });
}

export const isFromApplication = ({ headers }: ReceivedResponse): boolean =>
  headers['x-mark'] === MARK;

/**
 * Resolves to a port that is not in use. It is below the range that other servers and outgoing
 * connections use, so that a proxy does not connect to one of them while the service is stopped.
 */
async function unusedPort(): Promise<number> {
  for (;;) {
    const port = randomInt(4_000, 10_000);
    const socket = connect(port, '127.0.0.1');
    const isTaken = await new Promise((resolve) => {
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    });
    socket.destroy();
    if (!isTaken) return port;
  }
}

export class BehindProxy {
  #service: { close(): Promise<unknown> } | undefined = undefined;

  private constructor(
    readonly proxy: RunningProxy,
    readonly servicePort: number,
    readonly application: Server,
    /** The URIs that the application received. */
    readonly seen: readonly string[],
  ) {}

  /** `watch` is called with each request that reaches the application. */
  static async start(
    kind: ProxyKind,
    file = FILES[kind],
    watch: (incoming: IncomingMessage) => void = () => {},
  ): Promise<BehindProxy> {
    const seen: string[] = [];
    const server = application(seen, watch);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port: upstreamPort } = server.address() as AddressInfo;
    const servicePort = await unusedPort();
    const proxy = await startShippedProxy(kind, { file, servicePort, upstreamPort });
    return new BehindProxy(proxy, servicePort, server, seen);
  }

  /** Starts the service at the port of the proxy's configuration, with its profile. */
  async serve(options: RunningOptions): Promise<Running> {
    await this.stopService();
    const listen = `127.0.0.1:${this.servicePort}`;
    const settings = { proxy: this.proxy.kind, ...options.settings, listen };
    const running = await startRunning({ ...options, settings });
    this.#service = running;
    return running;
  }

  /** Starts another server at the port of the service. */
  async pretend(server: Server): Promise<void> {
    await this.stopService();
    await once(server.listen(this.servicePort, '127.0.0.1'), 'listening');
    this.#service = {
      close: async () => {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  }

  async stopService(): Promise<void> {
    await this.#service?.close();
    this.#service = undefined;
  }

  async request({
    method,
    path = '/',
    headers = {},
    body,
    from,
  }: SentRequest = {}): Promise<ReceivedResponse> {
    const list = Array.isArray(headers) ? ['Host', 'localhost', ...headers] : headers;
    const sent = httpRequest({
      ...{ host: '127.0.0.1', port: this.proxy.port, path, agent: false },
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: list as OutgoingHttpHeaders,
      ...(from !== undefined && { localAddress: from }),
    });
    sent.end(body);
    const [response] = await once(sent, 'response');
    let text = '';
    for await (const part of response.setEncoding('utf8')) text += part;
    return { status: response.statusCode, headers: response.headers, body: text };
  }

  /** Sends bytes that no client would send. Resolves to the status, or 0 without a response. */
  async sendRaw(text: string): Promise<number> {
    const socket = connect(this.proxy.port, '127.0.0.1');
    let received = '';
    socket.setEncoding('latin1').on('data', (data) => {
      received += data;
      socket.destroy();
    });
    socket.on('error', () => {});
    socket.write(text, 'latin1');
    await once(socket, 'close');
    return Number(/^HTTP\/1\.1 (\d+)/.exec(received)?.[1] ?? 0);
  }

  async stop(): Promise<void> {
    await this.stopService();
    await this.proxy.stop();
    this.application.closeAllConnections();
    this.application.close();
  }
}

/** Copies the folder of a shipped file and replaces one text in the file. */
export function changedCopy(
  file: string,
  from: string,
  to: string,
): { file: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-changed-'));
  for (const name of readdirSync(dirname(file))) {
    const text = readFileSync(join(dirname(file), name), 'utf8');
    const isChanged = name === basename(file);
    if (isChanged && text.split(from).length !== 2)
      throw new Error(`${file} does not contain ${from} exactly once`);
    writeFileSync(join(folder, name), isChanged ? text.replace(from, () => to) : text);
  }
  return {
    file: join(folder, basename(file)),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
