/**
 * Requests as Traefik and Envoy send them, by their source code and the shipped files. The proxies
 * themselves are not installed.
 */
import { readFileSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { policy, type Running, startRunning } from '../running.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of the file.
const shipped = (path: string): any =>
  parse(readFileSync(new URL(`../../../../examples/proxies/${path}`, import.meta.url), 'utf8'));

interface ReceivedResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Lines = Readonly<Record<string, string>>;

function send(url: string, method: string, headers: Lines): Promise<ReceivedResponse> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (part) => {
        body += part;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body }),
      );
    });
    sent.on('error', reject).end();
  });
}

/** A request as the proxy receives it. */
interface Original {
  readonly method: string;
  readonly uri: string;
  readonly client: string;
  readonly headers?: Lines;
}

let running: Running;
beforeAll(async () => {
  const key = [{ sources: [{ from: 'address' as const }] }];
  const limits = [{ policy: 'two', key }];
  const match = { kind: 'request' as const, path: ['/limited/**'], method: ['POST'] };
  const rules = [{ name: 'limited', match, limits, goOn: false }];
  const settings = { proxy: 'traefik' };
  running = await startRunning({ config: { policies: [policy('two', 2, '1m')], rules }, settings });
});
afterAll(() => running.close());

/** Replaces the origin of Sluice's URL in the file by that of this test. */
const here = (url: string): string =>
  url.replace(/^http:\/\/[^/]+/, () => {
    return running.url;
  });

describe('Traefik', () => {
  const { http } = shipped('traefik/dynamic.yaml');
  const { address, trustForwardHeader } = http.middlewares.sluice.forwardAuth;
  const cleared = Object.keys(http.middlewares['drop-client-headers'].headers.customRequestHeaders);

  /** Sends all headers except those of the connection. Traefik overwrites its own. */
  function forward({ method, uri, client, headers = {} }: Original): Promise<ReceivedResponse> {
    expect(trustForwardHeader).toBe(false);
    const passed = Object.entries(headers).filter(
      ([name]) => !cleared.some((each) => each.toLowerCase() === name.toLowerCase()),
    );
    return send(here(address), 'GET', {
      ...Object.fromEntries(passed.map(([name, value]) => [name.toLowerCase(), value])),
      'x-forwarded-for': client,
      'x-forwarded-method': method,
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'example.com',
      'x-forwarded-uri': uri,
    });
  }

  it('Traefik receives 200 or 429 with the headers for the client', async () => {
    const original = { method: 'POST', uri: '/limited/x?y=1', client: '192.0.2.1' };
    const responses = [await forward(original), await forward(original), await forward(original)];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(responses[2].headers['retry-after']).toBeDefined();
    expect(JSON.parse(responses[2].body)).toMatchObject({ 'violated-policies': ['two'] });
    expect((await forward({ ...original, client: '192.0.2.2' })).status).toBe(200);
    expect((await forward({ ...original, method: 'GET' })).status).toBe(200);
  });

  it('a client of Traefik cannot describe another request', async () => {
    const headers = {
      'X-Original-URI': '/free',
      'X-Original-Method': 'GET',
      'X-Forwarded-Uri': '/free',
      'X-Forwarded-For': '192.0.2.77',
    };
    const original = { method: 'POST', uri: '/limited', client: '192.0.2.3', headers };
    const responses = [await forward(original), await forward(original), await forward(original)];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429]);
  });

  it('the Traefik example has its middlewares in the required order', () => {
    expect(http.routers.application.middlewares).toEqual(['drop-client-headers', 'sluice']);
  });
});

describe('Envoy', () => {
  const { static_resources } = shipped('envoy-ext-authz/envoy.yaml');
  const [{ filter_chains }] = static_resources.listeners;
  const manager = filter_chains[0].filters[0].typed_config;
  const authz = manager.http_filters[0].typed_config;
  const { path_prefix, authorization_response } = authz.http_service;
  const namesIn = (list: { patterns: { exact: string }[] }) =>
    list.patterns.map(({ exact }) => exact);

  /** Sends the method, path and host of the request and the allowed headers, without the body. */
  function forward({ method, uri, client, headers = {} }: Original): Promise<ReceivedResponse> {
    const all: Lines = { ...headers, 'x-forwarded-for': client };
    const allowed = namesIn(authz.allowed_headers).filter((name) => all[name] !== undefined);
    return send(`${running.url}${path_prefix}${uri}`, method, {
      host: 'example.com',
      'content-length': '0',
      ...Object.fromEntries(allowed.map((name) => [name, all[name]])),
    });
  }

  it('Envoy receives 200 or 429 with the headers for the client', async () => {
    const original = { method: 'POST', uri: '/limited/x?y=1', client: '192.0.2.11' };
    const responses = [await forward(original), await forward(original), await forward(original)];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429]);
    const onSuccess = namesIn(authorization_response.allowed_client_headers_on_success);
    for (const name of onSuccess) expect(responses[0].headers).toHaveProperty(name);
    const onDenial = namesIn(authorization_response.allowed_client_headers);
    for (const name of onDenial) expect(responses[2].headers).toHaveProperty(name);
    expect((await forward({ ...original, client: '192.0.2.12' })).status).toBe(200);
    expect((await forward({ ...original, method: 'GET' })).status).toBe(200);
    expect((await forward({ ...original, uri: '/' })).status).toBe(200);
  });

  it('Envoy appends the client to X-Forwarded-For, and earlier entries are ignored', async () => {
    expect(manager.use_remote_address).toBe(true);
    const original = { method: 'POST', uri: '/limited', client: '198.51.100.1,192.0.2.13' };
    const other = { ...original, client: '198.51.100.2,192.0.2.13' };
    const responses = [await forward(original), await forward(other), await forward(original)];
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 429]);
  });

  it('the service accepts the largest headers that the Envoy example accepts', async () => {
    const headers = { cookie: 'x'.repeat(manager.max_request_headers_kb * 1024) };
    expect((await forward({ method: 'GET', uri: '/', client: '192.0.2.14', headers })).status).toBe(
      200,
    );
  });
});
