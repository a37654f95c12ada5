/**
 * A TCP proxy with injectable faults: delays, cut connections, stalls, black holes, rejections.
 *
 * Faults apply when bytes are forwarded, not when they arrive. So they also affect bytes that
 * arrived before the fault was set.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const HOST = '127.0.0.1';
/**
 * Queue entries after the last bytes: the sender has ended the connection, or its socket is closed.
 */
const END = Symbol('end');
const CLOSED = Symbol('closed');

/** Forwards the bytes of one direction of a connection. Its queue keeps delayed bytes in order. */
class ForwardQueue {
  #faults;
  #direction;
  #target;
  #drop;
  #queue = [];
  #timer;
  #isFlowing = false;
  #isClosed = false;

  constructor(faults, direction, source, target, drop) {
    this.#faults = faults;
    this.#direction = direction;
    this.#target = target;
    this.#drop = drop;
    source.on('data', (bytes) => this.#add(bytes));
    source.on('end', () => this.#add(END));
    source.on('close', () => this.#add(CLOSED));
  }

  #add(what) {
    if (this.#isClosed) return;
    this.#queue.push({ what, sinceMs: performance.now() });
    this.flow();
  }

  /**
   * Forwards the entries that are due. If a hook clears the faults meanwhile, the nested call
   * returns at once, so that the order is kept.
   */
  flow() {
    if (this.#isFlowing) return;
    this.#isFlowing = true;
    try {
      this.#forwardDue();
    } finally {
      this.#isFlowing = false;
    }
  }

  #forwardDue() {
    while (this.#queue.length > 0 && !this.#faults.isBlackHole) {
      const waitMs = this.#queue[0].sinceMs + this.#faults.delayMs - performance.now();
      if (waitMs > 0) {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => this.flow(), waitMs);
        return;
      }
      this.#forward(this.#queue.shift().what);
    }
  }

  /** Stops forwarding. */
  close() {
    this.#isClosed = true;
    this.#queue = [];
    clearTimeout(this.#timer);
  }

  #forward(what) {
    if (what === END) return this.#target.end();
    if (what === CLOSED) return this.#target.destroySoon();
    const bytes = this.#replace(what);
    if (bytes === null) return this.#drop();
    if (this.#isClosed) return;
    const left = this.#faults.bytesLeft[this.#direction];
    if (bytes.length < left) {
      this.#faults.bytesLeft[this.#direction] -= bytes.length;
      return this.#target.write(bytes);
    }
    this.#faults.bytesLeft[this.#direction] = Number.POSITIVE_INFINITY;
    this.#drop(this.#target, bytes.subarray(0, left));
  }

  #replace(bytes) {
    const { onReply } = this.#faults;
    if (this.#direction === 'toServer' || !onReply) return bytes;
    const replacement = onReply(bytes);
    return replacement === undefined ? bytes : replacement;
  }
}

/** A client, its server connection, and a queue for each direction. */
class Connection {
  #client;
  #server;
  #queues;

  constructor(faults, client, upstream) {
    const server = connect({ ...upstream, allowHalfOpen: true, noDelay: true });
    this.#client = client;
    this.#server = server;
    // After an error, a socket always emits `close`, which the queues handle.
    for (const socket of [client, server]) socket.on('error', () => {});
    const drop = (last, bytes) => this.destroy(last, bytes);
    this.#queues = [
      new ForwardQueue(faults, 'toServer', client, server, drop),
      new ForwardQueue(faults, 'toClient', server, client, drop),
    ];
  }

  get isOpen() {
    return !this.#client.destroyed;
  }

  /** Resolves when both sides are closed. In a black hole, the server may close first. */
  async closed() {
    await Promise.all(
      [this.#client, this.#server].map(
        (each) => new Promise((resolve) => each.on('close', resolve)),
      ),
    );
  }

  flow() {
    for (const queue of this.#queues) queue.flow();
  }

  /** Closes both sides: immediately, or after `bytes` have been written to `last`. */
  destroy(last, bytes) {
    for (const queue of this.#queues) queue.close();
    const end = () => {
      this.#client.destroy();
      this.#server.destroy();
    };
    if (last) last.write(bytes, end);
    else end();
  }

  /**
   * Closes the connection to the server, but keeps the client's connection open and discards its
   * bytes.
   */
  halfOpen() {
    for (const queue of this.#queues) queue.close();
    this.#server.destroy();
    this.#client.on('end', () => this.#client.destroy());
  }
}

class FaultProxy {
  #listener;
  #upstream;
  #connections = new Set();
  #isRefusing = false;
  #faults = { delayMs: 0, isBlackHole: false, onReply: undefined, bytesLeft: {} };

  constructor(upstream) {
    this.#upstream = upstream;
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (c) => this.#accept(c));
    this.host = HOST;
    this.heal();
  }

  async listen() {
    this.#listener.listen(0, HOST);
    await once(this.#listener, 'listening');
    this.port = this.#listener.address().port;
    return this;
  }

  get connections() {
    return [...this.#connections].filter(({ isOpen }) => isOpen).length;
  }

  #accept(client) {
    if (this.#isRefusing) return client.destroy();
    const connection = new Connection(this.#faults, client, this.#upstream);
    this.#connections.add(connection);
    connection.closed().then(() => this.#connections.delete(connection));
  }

  delay(ms) {
    this.#faults.delayMs = ms;
    this.#flowAll();
  }

  cutAfterBytes(count, direction) {
    this.#faults.bytesLeft[direction] = count;
  }

  blackHole(isOn) {
    this.#faults.isBlackHole = isOn;
    this.#flowAll();
  }

  halfOpen() {
    for (const connection of this.#connections) connection.halfOpen();
  }

  refuse(isOn) {
    this.#isRefusing = isOn;
    if (isOn) this.#destroyAll();
  }

  onReply(hook) {
    this.#faults.onReply = hook;
  }

  heal() {
    // Clear the black hole and the delay last: clearing them forwards the waiting bytes, which no
    // other fault must affect.
    this.cutAfterBytes(Number.POSITIVE_INFINITY, 'toServer');
    this.cutAfterBytes(Number.POSITIVE_INFINITY, 'toClient');
    this.onReply(undefined);
    this.refuse(false);
    this.blackHole(false);
    this.delay(0);
  }

  async stop() {
    this.#destroyAll();
    if (!this.#listener.listening) return;
    this.#listener.close();
    await once(this.#listener, 'close');
  }

  #flowAll() {
    for (const connection of this.#connections) connection.flow();
  }

  #destroyAll() {
    for (const connection of this.#connections) connection.destroy();
  }
}

/** Listens on a free port of 127.0.0.1 and forwards to the port of `upstream`. */
export function startFaultProxy({ port, host = HOST }) {
  return new FaultProxy({ port, host }).listen();
}
