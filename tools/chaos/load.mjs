/**
 * An open-loop load over TLS: requests are due at fixed times, whatever became of those before, and
 * their time counts from when they were due. A connection has one request in flight. Where none is
 * idle another one is opened, up to a bound.
 */
import { connect } from 'node:tls';

const TICK_MS = 5;
const MAX_CONNECTIONS = 400;
/** One in so many requests is sent on a connection of its own. */
const FRESH = 100;

class Connection {
  #text = '';
  #pending;
  #load;

  constructor(port, load) {
    this.#load = load;
    this.isFresh = true;
    this.socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    this.socket.setNoDelay(true).setEncoding('utf8');
    this.socket.on('data', (piece) => this.#read(piece));
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      load.left(this);
      this.#end({ isLost: true });
    });
  }

  send(request, text) {
    this.#pending = request;
    this.socket.write(text);
  }

  #read(piece) {
    this.#text += piece;
    const end = this.#text.indexOf('\r\n\r\n');
    if (end < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < end + 4 + length) return;
    const status = Number(this.#text.slice(9, 12));
    const body = JSON.parse(this.#text.slice(end + 4, end + 4 + length));
    this.#text = '';
    this.#end({ status, body });
    if (this.isSingle) this.socket.end();
    else this.#load.idle(this);
  }

  #end(outcome) {
    const request = this.#pending;
    this.#pending = undefined;
    if (request !== undefined) this.#load.ended(request, outcome);
  }
}

export class Load {
  #port;
  #rate;
  #bodyOf;
  #idle = [];
  #all = new Set();
  #timer;
  #sent = 0;
  /** Every request that ended: when it was due, how long it took, and what became of it. */
  results = [];
  /** Requests that could not be sent, because all connections were waiting. */
  unsent = 0;

  /** `bodyOf` makes the body of the next request. */
  constructor(port, rate, bodyOf) {
    this.#port = port;
    this.#rate = rate;
    this.#bodyOf = bodyOf;
  }

  start() {
    const startMs = performance.now();
    let count = 0;
    this.#timer = setInterval(() => {
      const dueCount = ((performance.now() - startMs) * this.#rate) / 1000;
      for (; count < dueCount; count++) this.#send(startMs + (count * 1000) / this.#rate);
    }, TICK_MS);
  }

  #send(dueMs) {
    const isSingle = this.#sent++ % FRESH === 0;
    const connection = (isSingle ? undefined : this.#idle.pop()) ?? this.#open();
    if (connection === undefined) {
      this.unsent++;
      return;
    }
    connection.isSingle = isSingle;
    const body = JSON.stringify(this.#bodyOf());
    const head = `POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}`;
    connection.send({ dueMs, body }, `${head}\r\n\r\n${body}`);
  }

  #open() {
    if (this.#all.size >= MAX_CONNECTIONS) return undefined;
    const connection = new Connection(this.#port, this);
    this.#all.add(connection);
    return connection;
  }

  idle(connection) {
    this.#idle.push(connection);
  }

  left(connection) {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  ended({ dueMs, body }, { status, body: reply, isLost = false }) {
    const endMs = performance.now();
    const tookMs = endMs - dueMs;
    const { key } = JSON.parse(body);
    const isDegraded = status === 503 || reply?.degraded !== undefined;
    const allowed = reply?.allowed === true;
    this.results.push({ dueMs, endMs, tookMs, key, isLost, isDegraded, allowed });
  }

  /** Sends nothing more. Resolves when all connections are closed. */
  async stop(patienceMs) {
    clearInterval(this.#timer);
    const untilMs = performance.now() + patienceMs;
    while (this.#idle.length < this.#all.size && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    for (const { socket } of this.#all) socket.destroy();
  }
}
