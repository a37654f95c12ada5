/**
 * No spelling of a request reaches the handler of `/login` without being counted under the address
 * and the key that the application uses for the client. Each spelling is sent as raw bytes through
 * every proxy, and checked with three kinds of application.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { KeySource, RuleConfig } from '../../src/config/model.ts';
import { PROXY_NAMES, type ProxyName } from '../../src/proxy-profiles.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { randomOf } from '../seeded-random.ts';
import { APPLICATIONS, type Received } from './applications.ts';
import { BehindProxy, ensureProxies, FILES, KINDS } from './behind-proxy.ts';
import { PATH } from './forwarded.ts';
import { randomSpelling, SPELLINGS, type Spelling } from './spellings.ts';

const RANDOM_SPELLINGS = Number(
  process.env.EVASION_SPELLINGS ?? (process.env.SLUICE_CAMPAIGN === 'full' ? 100_000 : 600),
);
const SEED = Number(process.env.EVASION_SEED ?? 20_261_116);
const AT_ONCE = 16;

const KEY: readonly KeySource[] = [
  { from: 'header', name: 'x-api-key' },
  { from: 'query', name: 'api_key' },
  { from: 'cookie', name: 'session' },
  { from: 'address' },
];

const limited = (name: string, path: readonly string[] | undefined): RuleConfig => ({
  name,
  match: { kind: 'request', ...(path && { path }) },
  limits: [
    { policy: `${name}ByAddress`, key: [{ sources: [{ from: 'address' }] }] },
    { policy: `${name}ByKey`, key: [{ sources: KEY }] },
  ],
  goOn: false,
});

const config = {
  policies: ['loginByAddress', 'loginByKey', 'restByAddress', 'restByKey'].map((name) =>
    policy(name, 1_000_000, '1h', { algorithm: 'fixed-window' }),
  ),
  rules: [
    {
      name: 'free',
      match: { kind: 'request' as const, path: ['/free/**'] },
      limits: [],
      goOn: false,
    },
    limited('login', ['/login']),
    limited('rest', undefined),
  ],
};

/** A proxy and a service in front of an application. */
interface ProxyPath {
  /** Resolves to the request that the application receives, or undefined if it was rejected. */
  pass(spelling: Spelling, from: string): Promise<Received | undefined>;
  readonly running: Running;
  stop(): Promise<void>;
}

const headOf = (method: string, target: string, lines: readonly string[]): string => {
  const fields = lines.map((text, at) => (at % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `${method} ${target} HTTP/1.1\r\n${fields.join('')}Connection: close\r\n\r\n`;
};

/** Sends bytes. Resolves to the status of the response, or 0 without a response. */
async function send(port: number, text: string, localAddress: string): Promise<number> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  let response = '';
  socket.setEncoding('latin1').on('data', (data) => {
    response += data;
  });
  socket.on('error', () => {});
  socket.write(text, 'latin1');
  await once(socket, 'close');
  return Number(/^HTTP\/1\.[01] (\d+)/.exec(response)?.[1] ?? 0);
}

/** Starts a real proxy with its shipped configuration. */
async function realProxy(kind: (typeof KINDS)[number]): Promise<ProxyPath> {
  const received = new Map<string, Received>();
  const behind = await BehindProxy.start(kind, FILES[kind], (request) => {
    const id = request.headers['x-spelling'] as string;
    received.set(id, { target: request.url!, lines: request.rawHeaders });
  });
  const running = await behind.serve({ config });
  let count = 0;
  return {
    running,
    async pass({ target, lines }, from) {
      const id = String(count++);
      const head = headOf('GET', target, ['Host', 'localhost', 'X-Spelling', id, ...lines]);
      await send(behind.proxy.port, head, from);
      const passed = received.get(id);
      received.delete(id);
      return passed;
    },
    stop: () => behind.stop(),
  };
}

const isOneOf = (names: readonly string[]) => (name: string) => names.includes(name.toLowerCase());

const without = (lines: readonly string[], isOmitted: (name: string) => boolean): string[] =>
  lines.flatMap((name, at) => (at % 2 === 0 && !isOmitted(name) ? [name, lines[at + 1]] : []));

/** Joins repeated lines by a comma, as Envoy does for its authorization service. */
function joined(lines: readonly string[]): string[] {
  const byName = new Map<string, string>();
  for (let at = 0; at < lines.length; at += 2) {
    const name = lines[at].toLowerCase();
    const before = byName.get(name);
    byName.set(name, before === undefined ? lines[at + 1] : `${before},${lines[at + 1]}`);
  }
  return [...byName].flat();
}

const envoyFile = new URL(
  '../../../../examples/proxies/envoy-ext-authz/envoy.yaml',
  import.meta.url,
);
const manager = parse(readFileSync(envoyFile, 'utf8')).static_resources.listeners[0]
  .filter_chains[0].filters[0].typed_config;
const allowedByEnvoy: readonly string[] =
  manager.http_filters[0].typed_config.allowed_headers.patterns
    .map(({ exact }: { exact: string }) => exact)
    .filter((name: string) => name !== 'x-forwarded-for');

it('the shipped configuration of Envoy drops headers with underscores', () => {
  const { headers_with_underscores_action: action } = manager.common_http_protocol_options;
  expect(action).toBe('DROP_HEADER');
});

const OVERWRITTEN = [
  ...['x-forwarded-for', 'x-forwarded-method', 'x-forwarded-uri', 'x-forwarded-host'],
  ...['x-forwarded-proto', 'connection'],
];

/** Requests that a proxy sends to the service for a spelling, by its source code or manual. */
const RECORDED: Readonly<Record<string, (spelling: Spelling, from: string) => string>> = {
  traefik: ({ target, lines }, from) =>
    headOf('GET', PATH, [
      ...['Host', 'sluice', ...without(lines, isOneOf(OVERWRITTEN))],
      ...['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', target, 'X-Forwarded-For', from],
      ...['X-Forwarded-Host', 'localhost', 'X-Forwarded-Proto', 'http'],
    ]),
  envoy: ({ target, lines }, from) => {
    const isOmitted = (name: string) => !isOneOf(allowedByEnvoy)(name);
    return headOf('GET', `${PATH}/ext-authz${target}`, [
      ...['Host', 'localhost', ...joined(without(lines, isOmitted)), 'X-Forwarded-For', from],
    ]);
  },
  generic: ({ target, lines }, from) =>
    headOf('GET', PATH, [
      ...['Host', 'sluice', ...joined(without(lines, isOneOf(OVERWRITTEN)))],
      ...['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', target, 'X-Forwarded-For', from],
      ...['X-Forwarded-Host', 'localhost'],
    ]),
};

/** Sends the recorded requests of a proxy that is not installed. */
async function recordedProxy(kind: ProxyName): Promise<ProxyPath> {
  const running = await startRunning({ config, settings: { proxy: kind } });
  return {
    running,
    async pass(spelling, from) {
      // No proxy forwards a target of another form.
      if (!spelling.target.startsWith('/')) return undefined;
      const { port } = running.service.http;
      const status = await send(port, RECORDED[kind](spelling, from), '127.0.0.1');
      if (status !== 200) return undefined;
      // With its shipped file, Envoy drops headers with underscores.
      const isDropped = (name: string) => kind === 'envoy' && name.includes('_');
      return { ...spelling, lines: without(spelling.lines, isDropped) };
    },
    stop: () => running.close(),
  };
}

let clients = 0;
/** Returns a loopback address that no request has used. */
const freshClient = (): string => {
  const number = ++clients + 512;
  return `127.${1 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
};

/** Makes the values unique to one request, so that their counters count only this request. */
const marked = (text: string, mark: string): string =>
  text.replace(/re(a|%61)l|made.up/g, (value) => `${value}${mark}`);

interface Outcome {
  readonly reached: number;
  readonly evasions: readonly string[];
}

/** Returns how many applications read a spelling as a login, and which were not counted. */
async function evaluate(proxyPath: ProxyPath, original: Spelling): Promise<Outcome> {
  const from = freshClient();
  const spelling = {
    target: marked(original.target, `${clients}`),
    lines: original.lines.map((line) => marked(line, `${clients}`)),
  };
  const received = await proxyPath.pass(spelling, from);
  const logins = received ? APPLICATIONS.filter((each) => each.isLogin(received)) : [];
  const { decisionService } = proxyPath.running.service.app;
  const evasions: string[] = [];
  for (const application of logins) {
    const key = application.keyOf(received!) ?? ['address', from];
    const byAddress = await decisionService.inspect('loginByAddress', `address:${from}`);
    const byKey = await decisionService.inspect('loginByKey', key);
    if (byAddress?.used === 1 && byKey?.used === 1) continue;
    evasions.push(`${application.name}: ${JSON.stringify({ ...spelling, key })}`);
  }
  return { reached: logins.length, evasions };
}

beforeAll(ensureProxies, 300_000);

const isReal = (kind: ProxyName): kind is (typeof KINDS)[number] =>
  (KINDS as readonly string[]).includes(kind);

it('there are at least 60 distinct spellings of a login request', () => {
  expect(new Set(SPELLINGS.map((each) => JSON.stringify(each))).size).toBeGreaterThanOrEqual(60);
});

describe.each(PROXY_NAMES)('evasion behind %s', (kind) => {
  let proxyPath: ProxyPath;
  beforeAll(async () => {
    proxyPath = await (isReal(kind) ? realProxy(kind) : recordedProxy(kind));
  });
  afterAll(() => proxyPath.stop());

  it(`no listed spelling reaches the login behind ${kind} uncounted`, async () => {
    const outcomes: Outcome[] = [];
    for (const spelling of SPELLINGS) outcomes.push(await evaluate(proxyPath, spelling));
    expect(outcomes.flatMap(({ evasions }) => evasions)).toEqual([]);
    // Enough of them are logins for at least one application.
    expect(outcomes.filter(({ reached }) => reached > 0).length).toBeGreaterThanOrEqual(30);
  });

  it(`no random spelling reaches the login behind ${kind} uncounted`, async () => {
    const random = randomOf(SEED + PROXY_NAMES.indexOf(kind));
    const count = Math.ceil(RANDOM_SPELLINGS / PROXY_NAMES.length);
    const evasions: string[] = [];
    let reached = 0;
    let sent = 0;
    const sender = async (): Promise<void> => {
      while (sent++ < count) {
        const outcome = await evaluate(proxyPath, randomSpelling(random));
        evasions.push(...outcome.evasions);
        if (outcome.reached > 0) reached++;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, sender));
    expect(evasions).toEqual([]);
    expect(reached).toBeGreaterThan(count / 20);
  });
});
