/**
 * Starts single Redis processes, and has a minimal client. The servers use a temporary folder and
 * end with this process, even if it is killed.
 */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import * as fs from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectSecurely } from 'node:tls';

export const HOST = '127.0.0.1';
const POLL_MS = 25;
const PATIENCE_MS = 30_000;
const PORT_ATTEMPTS = 5;

/**
 * Returns a random port below the ephemeral port range. With an ephemeral port, a client of a
 * stopped server could get the server's port as its own local port, and then connect to itself.
 */
export const randomPort = () => randomInt(10_000, 32_768);

/**
 * Parses the Redis reply at index `at`. Returns its value and the index after it, or undefined if
 * the reply is incomplete.
 */
function readReply(bytes, at, encoding) {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return undefined;
  const kind = String.fromCharCode(bytes[at]);
  const line = bytes.toString(encoding, at + 1, end);
  const reply = { value: line, next: end + 2 };
  if (kind === '+') return reply;
  if (kind === '-') return { ...reply, value: new Error(line) };
  if (kind === ':') return { ...reply, value: Number(line) };
  if (kind !== '$' && kind !== '*') throw new Error(`Expected a Redis reply, got ${kind}${line}`);
  const length = Number(line);
  if (length < 0) return { ...reply, value: null };
  if (kind === '$') {
    const next = reply.next + length + 2;
    if (next > bytes.length) return undefined;
    return { value: bytes.toString(encoding, reply.next, next - 2), next };
  }
  const items = { value: [], next: reply.next };
  while (items.value.length < length) {
    const item = readReply(bytes, items.next, encoding);
    if (!item) return undefined;
    items.value.push(item.value);
    items.next = item.next;
  }
  return items;
}

function writeCommand(args, encoding) {
  const buffers = args.map((arg) => Buffer.from(String(arg), encoding));
  const parts = buffers.flatMap((b) => [Buffer.from(`\r\n$${b.length}\r\n`), b]);
  return Buffer.concat([Buffer.from(`*${args.length}`), ...parts, Buffer.from('\r\n')]);
}

/**
 * Sends one command over a new connection, so that a paused or killed server leaves no broken
 * connection. Rejects with the server's error message.
 */
export function command(port, args, options = {}) {
  const { tls, username = 'default', password, timeoutMs = 10_000, encoding = 'utf8' } = options;
  const commands = password === undefined ? [args] : [['AUTH', username, password], args];
  return new Promise((resolve, reject) => {
    const place = { host: HOST, port };
    const socket = tls ? connectSecurely({ ...place, ca: tls }) : connect(place);
    let received = Buffer.alloc(0);
    const read = () => {
      let last = { next: 0 };
      for (const _ of commands) {
        last = readReply(received, last.next, encoding);
        if (!last) return;
        if (last.value instanceof Error) throw last.value;
      }
      resolve(last.value);
      socket.destroy();
    };
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes]);
      try {
        read();
      } catch (error) {
        socket.destroy(error);
      }
    });
    const what = `${args[0]} on port ${port}`;
    socket.setTimeout(timeoutMs, () =>
      socket.destroy(new Error(`${what}: no reply in ${timeoutMs} ms`)),
    );
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`${what}: the connection closed before the reply`)));
    socket.write(Buffer.concat(commands.map((each) => writeCommand(each, encoding))));
  });
}

/**
 * Polls `condition` until it resolves to a truthy value, and resolves to that value. An error
 * counts as false.
 */
export async function until(what, condition, servers) {
  const deadline = performance.now() + PATIENCE_MS;
  for (let last; ; await sleep(POLL_MS)) {
    try {
      const result = await condition();
      if (result) return result;
    } catch (error) {
      if (error.isFinal) throw error;
      last = error;
    }
    if (performance.now() < deadline) continue;
    const outputs = servers.map(({ port, output }) => `port ${port}:\n${output}`);
    const waited = `waited ${PATIENCE_MS} ms until ${what}`;
    throw new Error([waited, last?.message, ...outputs].filter(Boolean).join('\n'));
  }
}

/**
 * Shell script that kills the servers and deletes the folder after this process has ended, even by
 * SIGKILL: its input then ends, which `cat` waits for.
 */
const CLEAN_UP = `cat
for file in "$1"/*/pid; do kill -KILL "$(cat "$file")"; done
rm -rf "$1"`;

let home;

/** Creates the folder of all servers and starts `CLEAN_UP`. */
function makeHome() {
  const folder = fs.mkdtempSync(join(tmpdir(), 'sluice-redis-'));
  // Start the shell in a separate process group, because Ctrl-C sends SIGINT to the whole group of
  // this process.
  const stdio = ['pipe', 'ignore', 'ignore'];
  const guard = spawn('sh', ['-c', CLEAN_UP, 'sh', folder], { detached: true, stdio });
  guard.unref();
  guard.stdin.unref();
  return folder;
}

/** A server process with its connection settings and restart parameters. */
class Server {
  #child;
  #ended;
  #program;
  #programArgs;
  #afterStart;
  #endsGently;
  #access;
  #folder;

  constructor(
    folder,
    port,
    { program, programArgs, url, access = {}, afterStart, endsGently = false },
  ) {
    this.host = HOST;
    this.port = port;
    this.url = url ?? `redis://${HOST}:${port}`;
    this.tlsCa = access.tls;
    this.#folder = folder;
    this.#program = program;
    this.#programArgs = programArgs.map(String);
    this.#access = access;
    this.#afterStart = afterStart;
    this.#endsGently = endsGently;
  }

  get pid() {
    return this.#child.pid;
  }

  get output() {
    const path = join(this.#folder, 'output');
    return fs.existsSync(path) ? fs.readFileSync(path, 'utf8').slice(-5000).trim() : '';
  }

  command(...args) {
    return this.send(args);
  }

  send(args, options) {
    return command(this.port, args, { ...this.#access, ...options });
  }

  async start() {
    // Write the output to a file instead of a pipe, so that a server never waits for this process
    // to read.
    const output = fs.openSync(join(this.#folder, 'output'), 'a');
    const child = spawn(this.#program, this.#programArgs, { stdio: ['ignore', output, output] });
    fs.closeSync(output);
    this.#child = child;
    const pidFile = join(this.#folder, 'pid');
    if (child.pid) fs.writeFileSync(pidFile, String(child.pid));
    let end;
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => resolve(`could not be started: ${error.message}`));
      child.once('exit', (code, signal) => resolve(`ended with ${signal ?? `code ${code}`}`));
    });
    this.#ended.then((how) => {
      end = how;
      fs.rmSync(pidFile, { force: true });
    });
    const isReady = async () => {
      if (end) throw Object.assign(this.#failure(end), { isFinal: true });
      // Compare the process id, because another process may use this port.
      const text = await this.send(['INFO', 'server', 'persistence'], { timeoutMs: 1000 });
      return text.includes(`process_id:${child.pid}\r\n`) && !text.includes('\nloading:1');
    };
    await until(`${this.#program} responds`, isReady, [this]);
    await this.#afterStart?.(this);
  }

  #failure(end) {
    const hint = end.includes('ENOENT') ? '; tools/ensure-services redis installs it' : '';
    return new Error(`${this.#program} on port ${this.port} ${end}${hint}\n${this.output}`);
  }

  async pause() {
    this.#child.kill('SIGSTOP');
  }

  async resume() {
    this.#child.kill('SIGCONT');
  }

  async kill() {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  /** Kills the process. A server with persistence first has 5 s to write its data. */
  async #end() {
    if (this.#endsGently) {
      await this.resume();
      this.#child.kill('SIGTERM');
      await Promise.race([this.#ended, sleep(5000, undefined, { ref: false })]);
    }
    await this.kill();
  }

  async restart() {
    await this.#end();
    await this.start();
  }

  async stop() {
    await this.#end();
    fs.rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Starts the server that `plan(folder, port)` describes, in a new folder and on a free port. */
export async function launch(plan, fixedPort) {
  home ??= makeHome();
  for (let attempt = 1; ; attempt++) {
    const folder = fs.mkdtempSync(join(home, 'server-'));
    const port = fixedPort ?? randomPort();
    const server = new Server(folder, port, plan(folder, port));
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      const isTaken = /Address already in use/.test(error.message);
      if (fixedPort || !isTaken || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}
