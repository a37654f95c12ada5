/** An application behind a real proxy with a real service, configured by the shipped files. */
import { execFileSync } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
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

export interface Asked {
  readonly method?: string;
  readonly path?: string;
  /** A list of names and values in turn says some of them twice. */
  readonly headers?: Readonly<Record<string, string>> | readonly string[];
  readonly body?: string;
  /** The client: one of the addresses of this machine. */
  readonly from?: string;
}

export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** The request that the application received, from its response. */
export interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Only the application sends it, which identifies its responses. */
const MARK = randomUUID();

/** Responds with the received request; `/status/403` with that status, `/dies` not at all. */
function application(seen: string[], watch: (asked: IncomingMessage) => void): Server {
  return createServer(async (asked, answer) => {
    seen.push(asked.url!);
    watch(asked);
    if (asked.url === '/dies') return asked.socket.destroy();
    let body = '';
    for await (const part of asked.setEncoding('utf8')) body += part;
    const { method, url, headers } = asked;
    const [, status = '200'] = /^\/status\/(\d+)/.exec(url!) ?? [];
    answer.writeHead(Number(status), { 'x-mark': MARK });
    return answer.end(JSON.stringify({ method, url, headers, body }));
  });
}

export const isFromApplication = ({ headers }: Got): boolean => headers['x-mark'] === MARK;

/**
 * Where nothing listens yet. Below the ports that the servers of other tests and outgoing
 * connections get, so that what asks for a stopped service does not find one of them.
 */
async function quietPort(): Promise<number> {
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
    watch: (asked: IncomingMessage) => void = () => {},
  ): Promise<BehindProxy> {
    const seen: string[] = [];
    const server = application(seen, watch);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port: upstreamPort } = server.address() as AddressInfo;
    const servicePort = await quietPort();
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

  async ask({ method, path = '/', headers = {}, body, from }: Asked = {}): Promise<Got> {
    const list = Array.isArray(headers) ? ['Host', 'localhost', ...headers] : headers;
    const sent = request({
      ...{ host: '127.0.0.1', port: this.proxy.port, path, agent: false },
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: list as OutgoingHttpHeaders,
      ...(from !== undefined && { localAddress: from }),
    });
    sent.end(body);
    const [answer] = await once(sent, 'response');
    let text = '';
    for await (const part of answer.setEncoding('utf8')) text += part;
    return { status: answer.statusCode, headers: answer.headers, body: text };
  }

  /** The status that something is answered which no client would send; 0 if there is no answer. */
  async askRaw(text: string): Promise<number> {
    const socket = connect(this.proxy.port, '127.0.0.1');
    let answer = '';
    socket.setEncoding('latin1').on('data', (data) => {
      answer += data;
      socket.destroy();
    });
    socket.on('error', () => {});
    socket.write(text, 'latin1');
    await once(socket, 'close');
    return Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);
  }

  async stop(): Promise<void> {
    await this.stopService();
    await this.proxy.stop();
    this.application.closeAllConnections();
    this.application.close();
  }
}

/** A copy of a shipped folder in which one thing is changed, as its comments tell. */
export function changedCopy(
  file: string,
  from: string,
  to: string,
): { file: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-changed-'));
  for (const name of readdirSync(dirname(file))) {
    const text = readFileSync(join(dirname(file), name), 'utf8');
    const isIt = name === basename(file);
    if (isIt && text.split(from).length !== 2) throw new Error(`${file} has not one ${from}`);
    writeFileSync(join(folder, name), isIt ? text.replace(from, () => to) : text);
  }
  return {
    file: join(folder, basename(file)),
    remove: () => rmSync(folder, { recursive: true }),
  };
}
