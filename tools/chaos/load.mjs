/**
 * Open-loop load over TLS: requests are due at fixed times, independent of earlier responses. A
 * connection has one request in flight. As in a proxy, a pool of idle connections is kept open, and
 * lost connections are replaced one after the other. If no connection is idle, another is opened,
 * up to `MAX_CONNECTIONS`.
 *
 * This process shares the CPU cores with the service. Its own delays must not count as delays of
 * the service, so the duration of a request is measured from the time at which it was sent, and
 * `resultsSince` also returns how long this process was blocked meanwhile.
 */
import { connect } from 'node:tls';

const TICK_MS = 5;
const MAX_CONNECTIONS = 400;
/**
 * Minimum number of open connections. Without a pool, a pause of the service for 50 ms would make
 * 100 requests open a connection each. The handshakes take longer than the pause, so that the
 * following requests would open even more connections.
 */
const POOL_SIZE = 150;
/** One request in 100 uses a new connection. */
const NEW_CONNECTION_INTERVAL = 100;

class Connection {
  #text = '';
  #pending;
  #load;

  constructor(port, load) {
    this.#load = load;
    this.socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    this.socket.setNoDelay(true).setEncoding('utf8');
    this.socket.on('data', (piece) => this.#read(piece));
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      load.remove(this);
      this.#end({ isLost: true });
    });
  }

  /** Adds the connection to the idle connections as soon as it is open. */
  addWhenOpen() {
    this.socket.once('secureConnect', () => this.#load.addIdle(this));
  }

  send(request, text) {
    this.#pending = request;
    request.isOnNew = this.socket.connecting || !this.socket.getProtocol();
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
    else this.#load.addIdle(this);
  }

  #end(outcome) {
    const request = this.#pending;
    this.#pending = undefined;
    if (request !== undefined) this.#load.complete(request, outcome);
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
  /** Completed requests. */
  #results = [];
  #inFlight = new Set();
  /** Periods in which this process was blocked: `[fromMs, untilMs]`, in order. */
  #blocked = [];
  /** Number of requests that could not be sent, because all connections were in use. */
  unsent = 0;

  /** `bodyOf` returns the body of the next request. */
  constructor(port, rate, bodyOf) {
    this.#port = port;
    this.#rate = rate;
    this.#bodyOf = bodyOf;
  }

  start() {
    const startMs = performance.now();
    let count = 0;
    let tickMs = startMs;
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      if (nowMs - tickMs > 2 * TICK_MS) this.#blocked.push([tickMs + TICK_MS, nowMs]);
      tickMs = nowMs;
      const dueCount = ((nowMs - startMs) * this.#rate) / 1000;
      for (; count < dueCount; count++) this.#send(startMs + (count * 1000) / this.#rate);
      if (this.#all.size < POOL_SIZE) this.#open()?.addWhenOpen();
    }, TICK_MS);
  }

  #send(dueMs) {
    const isSingle = this.#sent++ % NEW_CONNECTION_INTERVAL === 0;
    const connection = (isSingle ? undefined : this.#idle.pop()) ?? this.#open();
    if (connection === undefined) {
      this.unsent++;
      return;
    }
    connection.isSingle = isSingle;
    const body = JSON.stringify(this.#bodyOf());
    const head = `POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}`;
    const request = { dueMs, sentMs: performance.now(), body };
    this.#inFlight.add(request);
    connection.send(request, `${head}\r\n\r\n${body}`);
  }

  #open() {
    if (this.#all.size >= MAX_CONNECTIONS) return undefined;
    const connection = new Connection(this.#port, this);
    this.#all.add(connection);
    return connection;
  }

  /**
   * Returns the duration of the longest period since `sinceMs` in which this process was blocked.
   */
  longestBlockedMs(sinceMs) {
    const times = this.#blocked.filter(([fromMs]) => fromMs >= sinceMs);
    return Math.round(Math.max(0, ...times.map(([fromMs, untilMs]) => untilMs - fromMs)));
  }

  /**
   * Returns the completed requests that were due since `sinceMs`. `tookMs` is the time from sending
   * a request to its response. `blockedMs` is the part of it in which this process was blocked.
   */
  resultsSince(sinceMs) {
    const results = this.#results.filter(({ dueMs }) => dueMs >= sinceMs);
    results.sort((a, b) => a.sentMs - b.sentMs);
    let first = 0;
    return results.map((result) => {
      const { sentMs, endMs } = result;
      while (this.#blocked[first]?.[1] < sentMs) first++;
      let blockedMs = 0;
      for (let at = first; this.#blocked[at]?.[0] < endMs; at++) {
        const [fromMs, untilMs] = this.#blocked[at];
        blockedMs += Math.min(untilMs, endMs) - Math.max(fromMs, sentMs);
      }
      return { ...result, tookMs: endMs - sentMs, blockedMs };
    });
  }

  addIdle(connection) {
    this.#idle.push(connection);
  }

  remove(connection) {
    this.#all.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  complete(request, { status, body: reply, isLost = false }) {
    const { dueMs, sentMs, isOnNew, body } = request;
    this.#inFlight.delete(request);
    const endMs = performance.now();
    const { key } = JSON.parse(body);
    const isDegraded = status === 503 || reply?.degraded !== undefined;
    const allowed = reply?.allowed === true;
    const times = { dueMs, sentMs, endMs, isOnNew };
    this.#results.push({ ...times, key, isLost, isDegraded, allowed });
  }

  /** Resolves when all requests that are now in flight have completed, or after `patienceMs`. */
  async waitForInFlight(patienceMs) {
    const untilMs = performance.now() + patienceMs;
    const requests = [...this.#inFlight];
    while (requests.some((each) => this.#inFlight.has(each)) && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Stops sending. Resolves when all requests have completed, or after `patienceMs`. */
  async stop(patienceMs) {
    clearInterval(this.#timer);
    const untilMs = performance.now() + patienceMs;
    while (this.#idle.length < this.#all.size && performance.now() < untilMs) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    for (const { socket } of this.#all) socket.destroy();
  }
}
