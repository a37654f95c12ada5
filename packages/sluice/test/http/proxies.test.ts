/** Behind real proxies, forged forwarding headers do not change the client's key. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type ProxyKind,
  type RunningProxy,
  startProxy,
} from '../../../../tools/servers/proxies.mjs';
import {
  type AddressOptions,
  type AddressReader,
  clientAddress,
  type ForwardedHeader,
} from '../../src/http/client-address.ts';

const ensureServices = new URL('../../../../tools/ensure-services', import.meta.url).pathname;
const KINDS: readonly ProxyKind[] = ['nginx', 'caddy', 'haproxy'];
/** `SLUICE_CAMPAIGN=full` sends the whole table through all pairs of proxies. */
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
/** In the short form, each proxy is once the first and once the second. */
const PAIRS = KINDS.flatMap((first, at) =>
  KINDS.filter((_, other) => isFull || other === (at + 2) % 3).map(
    (second) => `${first}, ${second}`,
  ),
);
const CLIENTS = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
/** Random requests for each chain of proxies, in addition to the table. */
const RANDOM_REQUESTS = Number(process.env.PROXY_REQUESTS ?? (isFull ? 2000 : 20));

const warned = new Set<string>();
const open = (options: AddressOptions): AddressReader =>
  clientAddress({ ...options, onWarning: ({ code }) => warned.add(code) });

/** Key functions for each header, number of proxies and kind of trustProxy, by name. */
const readers = new Map<string, AddressReader>();
for (const forwardedHeader of ['x-forwarded-for', 'forwarded'] as const) {
  for (const trustProxy of [1, 2, 3, ['127.0.0.1']]) {
    const name = `${forwardedHeader} ${JSON.stringify(trustProxy)}`;
    readers.set(name, open({ trustProxy, forwardedHeader }));
  }
}
readers.set('none', open({}));

/** Responds with the key of each key function. */
const app = createServer((incoming, response) => {
  const header = (name: string) => incoming.headers[name] as string | undefined;
  const keys = [...readers].map(([name, read]) => [
    name,
    read(incoming.socket.remoteAddress, header),
  ]);
  response.end(JSON.stringify(Object.fromEntries(keys)));
});

type Line = readonly [name: string, value: string];
type Keys = Readonly<Record<string, string>>;

/** Sends a request from one of the addresses of this machine. */
async function keysOf(port: number, localAddress: string, lines: readonly Line[]): Promise<Keys> {
  const headers = ['Host', 'localhost', ...lines.flat()];
  const sent = request({ host: '127.0.0.1', port, localAddress, agent: false, headers });
  sent.end();
  const [response] = await once(sent, 'response');
  let text = '';
  for await (const piece of response) text += piece;
  if (response.statusCode !== 200) throw new Error(`${response.statusCode}: ${text}`);
  return JSON.parse(text);
}

let requests = 0;
const bypasses: string[] = [];

const inner = new Map<ProxyKind, RunningProxy>();
const outer = new Map<string, RunningProxy>();

beforeAll(async () => {
  execFileSync(ensureServices, KINDS);
  app.listen(0, '127.0.0.1');
  await once(app, 'listening');
  const { port: upstreamPort } = app.address() as AddressInfo;
  for (const kind of KINDS) {
    const options = { upstreamPort, trusted: ['127.0.0.1'], forwarded: true };
    inner.set(kind, await startProxy(kind, options));
  }
  for (const pair of PAIRS) {
    const [first, second] = pair.split(', ') as [ProxyKind, ProxyKind];
    const { port } = inner.get(second)!;
    outer.set(pair, await startProxy(first, { upstreamPort: port, forwarded: true }));
  }
}, 300_000);

afterAll(async () => {
  await Promise.all([...outer.values(), ...inner.values()].map((proxy) => proxy.stop()));
  app.close();
  // Shows the progress of a long campaign.
  if (RANDOM_REQUESTS > 100) {
    process.stderr.write(`proxies: ${requests} requests, ${bypasses.length} bypasses\n`);
  }
});

/** Valid and invalid addresses that a client may forge. */
const PRETENCES = [
  ...['9.9.9.9', '127.0.0.1', '127.0.0.99', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1'],
  ...['2001:db8::1', '[2001:db8::1]', '[2001:db8::1]:443', '9.9.9.9:80', '127.1', '0x7f000001'],
  ...['64:ff9b::127.0.0.1', '127.000.000.001', 'unknown', '_hidden', 'localhost', '', ' ', '\t'],
  ...['"', '"9.9.9.9', '\\', '\\"', ';', '%', '9.9.9.9 127.0.0.1', '127.0.0.1%lo', '*'],
];

const elementOf = (pretence: string): string =>
  /[:[]/.test(pretence) ? `for="${pretence}"` : `For=${pretence};proto=https`;

/** Malformed, so that a parser from the left would skip what a proxy appends. */
const TRAPS = [
  ...['for="', 'for=9.9.9.9;host="', 'for="9.9.9.9\\', 'host="a, for=9.9.9.9', 'for=9.9.9.9,'],
  ...[',', ',,,', 'for=9.9.9.9;', '"",', 'for=127.0.0.1, for="', 'for=9.9.9.9;host="\\"'],
];

const SPELLINGS: Readonly<Record<ForwardedHeader, readonly string[]>> = {
  'x-forwarded-for': ['X-Forwarded-For', 'x-forwarded-for', 'X-FORWARDED-FOR'],
  forwarded: ['Forwarded', 'forwarded', 'FORWARDED'],
};

/** Returns forged header lines: an address in 0 to 5 places, on 1 to 5 lines. */
function forgeries(header: ForwardedHeader): Line[][] {
  const [name, other] = SPELLINGS[header];
  const write = header === 'forwarded' ? elementOf : String;
  const many = PRETENCES.flatMap((pretence) => {
    const entry = write(pretence);
    const hops = [1, 2, 3, 4, 5].map((count) => new Array<string>(count).fill(entry));
    const onOneLine = hops.map((entries): Line[] => [[name, entries.join(', ')]]);
    const onLines = hops.map((entries) => entries.map((each): Line => [other, each]));
    return [...onOneLine, ...onLines.slice(1)];
  });
  const traps = TRAPS.map((trap): Line[] => [[name, trap]]);
  const long: Line[] = [[name, `${write('9.9.9.9')}, `.repeat(500)]];
  return [[], ...many, ...traps, long];
}

const anyLines = (header: ForwardedHeader): fc.Arbitrary<Line[]> => {
  const entry = fc.oneof(
    fc.constantFrom(...PRETENCES, ...TRAPS),
    fc.ipV4(),
    fc.ipV6(),
    fc.string({ maxLength: 20 }),
  );
  const value = fc
    .array(header === 'forwarded' ? fc.oneof(entry, entry.map(elementOf)) : entry, { maxLength: 5 })
    .map((entries) => entries.join(', '));
  return fc.array(fc.tuple(fc.constantFrom(...SPELLINGS[header]), value), { maxLength: 4 });
};

/** Sends all requests through one chain and returns every key that is not the client's. */
async function attack(port: number, proxies: number, header: ForwardedHeader): Promise<void> {
  const random = fc.sample(anyLines(header), RANDOM_REQUESTS);
  // In the short form, two proxies get every fourth forgery, since one proxy gets all.
  const stride = isFull || proxies === 1 ? 1 : 4;
  const all = [...forgeries(header).filter((_, at) => at % stride === 0), ...random];
  for (const [index, lines] of all.entries()) {
    const client = CLIENTS[index % CLIENTS.length];
    const keys = await keysOf(port, client, lines);
    requests++;
    for (const trust of [String(proxies), '["127.0.0.1"]']) {
      const key = keys[`${header} ${trust}`];
      if (key !== client) bypasses.push(`${client} as ${key} by ${JSON.stringify(lines)}`);
    }
  }
  expect(bypasses).toEqual([]);
}

describe('one proxy', () => {
  describe.each(KINDS)('%s', (kind) => {
    it.each(['x-forwarded-for', 'forwarded'] as const)(
      `behind ${kind}, forged headers do not change the key from %s`,
      (header) => attack(inner.get(kind)!.port, 1, header),
    );
  });
});

describe('two proxies', () => {
  it.each(PAIRS)('behind %s, forged headers do not change the key from X-Forwarded-For', (pair) =>
    attack(outer.get(pair)!.port, 2, 'x-forwarded-for'),
  );

  // Before 1.23, nginx passes on only the first line of an unknown header, which is the client's if
  // the proxy before it adds a line.
  it.each(PAIRS.filter((pair) => !/(?:caddy|haproxy), nginx/.test(pair)))(
    'behind %s, forged headers do not change the key from Forwarded',
    (pair) => attack(outer.get(pair)!.port, 2, 'forwarded'),
  );
});

describe('a wrong trustProxy', () => {
  it('without trustProxy, all clients behind a proxy share one key, with a warning', async () => {
    const { port } = inner.get('nginx')!;
    const keys = await Promise.all(CLIENTS.map((client) => keysOf(port, client, [])));
    expect(keys.map(({ none }) => none)).toEqual(CLIENTS.map(() => '127.0.0.1'));
    expect(warned).toContain('WARN_FORWARDED_IGNORED');
  });

  it('if trustProxy is too high, clients can forge their key, with a warning', async () => {
    const { port } = inner.get('haproxy')!;
    const forged = await keysOf(port, '127.0.0.2', [['X-Forwarded-For', '9.9.9.9']]);
    expect(forged['x-forwarded-for 2']).toBe('9.9.9.9');
    const honest = await keysOf(port, '127.0.0.2', []);
    expect(honest['x-forwarded-for 2']).toBe('127.0.0.2');
    expect(warned).toContain('WARN_FORWARDED_SHORT');
  });

  it('if trustProxy is too low, clients share one key and cannot forge the key', async () => {
    const { port } = outer.get('nginx, haproxy')!;
    const keys = await keysOf(port, '127.0.0.2', [['X-Forwarded-For', '9.9.9.9']]);
    expect(keys['x-forwarded-for 1']).toBe('127.0.0.1');
  });

  it('if trustProxy lists networks and no proxy is in front, the key is the client', async () => {
    const { port } = app.address() as AddressInfo;
    const keys = await keysOf(port, '127.0.0.2', [['X-Forwarded-For', '9.9.9.9']]);
    expect(keys['x-forwarded-for ["127.0.0.1"]']).toBe('127.0.0.2');
  });
});
