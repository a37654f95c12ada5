/** Logs written by real servers for requests sent to them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { Entry } from '../src/entry.ts';
import { fieldsOf, makeFolder, type Read, readAll } from './reading.ts';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/** Sends bytes and waits until the server closes the connection. */
async function send(port: number, bytes: string | Buffer): Promise<void> {
  const socket = createConnection(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write(bytes);
  socket.resume();
  await once(socket, 'close');
}

async function startServer(program: string, args: string[], folder: string, port: number) {
  const { PATH } = process.env;
  const homes = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
  const env = { ...process.env, ...homes, PATH: `${PATH}:/usr/sbin:/sbin` };
  const child: ChildProcess = spawn(program, args, { cwd: folder, env, stdio: 'ignore' });
  const ended = once(child, 'exit');
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await ended;
  };
  onTestFinished(stop);
  const connect = async (): Promise<void> => {
    const socket = createConnection(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.destroy();
  };
  await vi.waitFor(connect, { timeout: 20_000, interval: 50 });
  return stop;
}

const credentials = (user: string): string => Buffer.from(`${user}:secret`).toString('base64');

/** Returns a request that closes its connection. */
const request = (target: string, headers: readonly string[] = [], method = 'GET'): Buffer => {
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: example.com:8443', 'Connection: close'];
  return Buffer.from([...lines, ...headers, '', ''].join('\r\n'));
};

const agents = ['User-Agent: we "quote" \\back', 'X-Forwarded-For: 203.0.113.5, 198.51.100.7'];

async function sendAll(port: number): Promise<void> {
  await send(port, request('/a?b=1&c="q"', agents));
  await send(port, request('/caf%C3%A9/\u00e9', [`Authorization: Basic ${credentials('al ice')}`]));
  await send(port, request('http://proxy.example.com/abs?x', [], 'POST'));
  await send(port, 'GET /\r\n\r\n');
  await send(port, Buffer.from('16030100a5010000a10303207820', 'hex'));
}

const NGINX_FORMATS = {
  combined: '',
  more: `'$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" "$http_x_forwarded_for" $request_time $pipe'`,
  precise: `'$remote_addr - $remote_user [$msec] "$request" $status $body_bytes_sent'`,
  virtual: `'$http_host $remote_addr - $remote_user [$time_iso8601] "$request" $status '
    '$body_bytes_sent'`,
  json: `escape=json '{"msec":$msec,"remote_addr":"$remote_addr","remote_user":"$remote_user",'
    '"request":"$request","request_uri":"$request_uri","request_method":"$request_method",'
    '"http_host":"$http_host","status":$status,"bytes":"$body_bytes_sent",'
    '"http_user_agent":"$http_user_agent"}'`,
};
type NginxFormat = keyof typeof NGINX_FORMATS;

/** Runs nginx with one process, whose logs are complete when it has exited. */
async function nginxLogs(): Promise<Record<NginxFormat, Read>> {
  const folder = makeFolder();
  const port = await freePort();
  const names = Object.keys(NGINX_FORMATS) as NginxFormat[];
  const formats = names
    .filter((name) => NGINX_FORMATS[name] !== '')
    .map((name) => `log_format ${name} ${NGINX_FORMATS[name]};`);
  const logs = names.map((name) => `access_log ${folder}/${name}.log ${name};`);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  writeFileSync(
    join(folder, 'config'),
    `daemon off; master_process off; pid ${folder}/pid; error_log /dev/null; events {}
    http { ${[...temporary, ...formats, ...logs].join('\n')}
      server { listen 127.0.0.1:${port}; location / { return 200 "hello\\n"; } } }`,
  );
  const args = ['-p', folder, '-e', '/dev/null', '-c', join(folder, 'config')];
  const stop = await startServer('nginx', args, folder, port);
  await sendAll(port);
  await stop();
  const read = names.map(async (name) => [name, await readAll(join(folder, `${name}.log`))]);
  return Object.fromEntries(await Promise.all(read));
}

const NO_REQUEST = { method: '', path: '', search: '', status: 400 };

it('logs written by nginx in default and custom formats are read', async () => {
  const before = Date.now();
  const logs = await nginxLogs();
  const after = Date.now();
  for (const [name, { entries, report }] of Object.entries(logs)) {
    const isJson = name === 'json';
    expect(report.format, name).toBe(isJson ? 'json-lines' : 'combined');
    expect(report.unreadable, JSON.stringify(report.samples)).toBe(0);
    expect(entries.map(fieldsOf), name).toMatchObject([
      { method: 'GET', path: '/a', search: 'b=1&c="q"', status: 200, bytes: 6, user: '' },
      { method: 'GET', path: '/caf%C3%A9/é', search: '', status: 200, user: 'al ice' },
      { method: 'POST', path: '/abs', search: 'x', status: 200 },
      { method: 'GET', path: '/', search: '', status: 200, user: '' },
      NO_REQUEST,
    ]);
    for (const { client, timeMs } of entries) {
      expect(client).toBe('127.0.0.1');
      // Most of them have whole seconds only.
      expect(timeMs).toBeGreaterThan(before - 1000);
      expect(timeMs).toBeLessThanOrEqual(after);
    }
  }
  const { combined, more, precise, virtual, json } = logs;
  const fields = (name: string) =>
    [combined, more, json].map(({ entries }) => entries[0].field(name));
  expect(fields('user-agent')).toEqual(Array(3).fill('we "quote" \\back'));
  expect(more.entries[0].field('x-forwarded-for')).toBe('203.0.113.5, 198.51.100.7');
  expect(virtual.entries.map(({ host }) => host).slice(0, 2)).toEqual([
    'example.com',
    'example.com',
  ]);
  const times = ({ entries }: Read) => entries.map(({ timeMs }) => timeMs);
  expect(times(precise)).toEqual(times(json));
  const seconds = (read: Read) => times(read).map((timeMs) => Math.floor(timeMs / 1000));
  expect(seconds(virtual)).toEqual(seconds(precise));
});

it('logs written by Caddy are read, and lines that are not requests are counted', async () => {
  const folder = makeFolder();
  const port = await freePort();
  const path = join(folder, 'access.log');
  writeFileSync(
    join(folder, 'config'),
    `{
      admin off
      auto_https off
      log {
        output file ${path}
      }
    }
    http://:${port} {
      bind 127.0.0.1
      log
      error /boom "not today" 503
      respond "hello"
    }`,
  );
  const args = ['run', '--adapter', 'caddyfile', '--config', join(folder, 'config')];
  const stop = await startServer('caddy', args, folder, port);
  const before = Date.now();
  await send(port, request('/a?b=1&c=%22q%22', ['X-Api-Key: k1', ...agents]));
  await send(port, request('/boom'));
  await stop();
  const after = Date.now();
  const { entries, report } = await readAll(path);
  expect(report.format).toBe('caddy');
  expect(entries.map(fieldsOf)).toMatchObject([
    {
      client: '127.0.0.1',
      method: 'GET',
      path: '/a',
      search: 'b=1&c=%22q%22',
      status: 200,
      bytes: 5,
    },
    { client: '127.0.0.1', method: 'GET', path: '/boom', host: 'example.com', status: 503 },
  ]);
  const [first]: readonly Entry[] = entries;
  expect(first.host).toBe('example.com');
  expect(first.field('x-api-key')).toBe('k1');
  expect(first.field('user-agent')).toBe('we "quote" \\back');
  expect(first.timeMs).toBeGreaterThanOrEqual(before);
  expect(first.timeMs).toBeLessThanOrEqual(after);
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  expect(lines.filter((line) => line.includes('"uri":"/boom"'))).toHaveLength(2);
  expect(report).toMatchObject({ lines: lines.length, unreadable: lines.length - 2 });
});
