/**
 * The network between the processes and the server. Each process has one connection at a time,
 * which keeps its messages in order. When it is closed, its commands may still be executed later,
 * also after commands of the next connection. So may the second copies of duplicated messages.
 */
import type { Faults } from './faults.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** The last arrivals of a connection. */
interface Connection {
  commandMs: number;
  replyMs: number;
  readonly pending: Set<() => void>;
}

export class Network {
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: Faults;
  readonly #latencyMs: number;
  /** The longest delay of a slow message. */
  readonly #slowMs: number;
  readonly #detourMs: number;
  readonly #timeoutMs: number;

  constructor(world: World, random: Random, faults: Faults, leaseMs: number) {
    this.#world = world;
    this.#random = random;
    this.#faults = faults;
    this.#latencyMs = leaseMs * random.pick([0.001, 0.01, 0.05, 0.2]);
    this.#slowMs = leaseMs * random.pick([0.5, 2, 10, 40]);
    this.#detourMs = leaseMs * random.pick([0.1, 1, 3]);
    this.#timeoutMs = leaseMs * random.pick([0.3, 1, 5]);
  }

  newLink(): Link {
    const random = this.#random;
    return new Link(this.#world, random, this.#faults, {
      delay: () => this.#delay(),
      detour: () => random.between(0, this.#detourMs),
      timeoutMs: this.#timeoutMs,
    });
  }

  #delay(): number {
    const usual = this.#random.exponential(this.#latencyMs);
    if (!this.#faults.occurs('slow message')) return usual;
    return usual + this.#random.between(0, this.#slowMs);
  }
}

interface Timing {
  readonly delay: () => number;
  /** Returns the delay of the second copy of a message. */
  readonly detour: () => number;
  readonly timeoutMs: number;
}

/** Sends the commands of one process. */
export class Link {
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: Faults;
  readonly #timing: Timing;
  #connection: Connection = { commandMs: 0, replyMs: 0, pending: new Set() };
  #sent = 0;
  /** The number of the newest command that has been executed. */
  #newest = 0;

  constructor(world: World, random: Random, faults: Faults, timing: Timing) {
    this.#world = world;
    this.#random = random;
    this.#faults = faults;
    this.#timing = timing;
  }

  /**
   * Sends a command, which the server executes by calling `execute` once, several times or never.
   * Then calls `succeeded` with the result, or `failed`.
   */
  send<T>(execute: () => T, succeeded: (result: T) => void, failed: () => void): void {
    const faults = this.#faults;
    if (faults.occurs('closed connection')) this.#reconnect();
    const connection = this.#connection;
    const number = ++this.#sent;
    let isDone = false;
    const end = (react: () => void): void => {
      if (isDone) return;
      isDone = true;
      connection.pending.delete(fail);
      react();
    };
    const fail = (): void => end(failed);
    connection.pending.add(fail);
    this.#world.after(this.#timing.timeoutMs, () => {
      if (isDone) return;
      fail();
      if (this.#random.chance(0.5) && connection === this.#connection) this.#reconnect();
    });
    const arrive = (): void => {
      if (number < this.#newest) faults.count('reordered command');
      this.#newest = Math.max(this.#newest, number);
      const result = execute();
      this.#reply(connection, () => end(() => succeeded(result)));
    };
    if (!faults.occurs('lost command')) {
      connection.commandMs = Math.max(
        this.#world.nowMs + this.#timing.delay(),
        connection.commandMs,
      );
      this.#world.at(connection.commandMs, arrive);
    }
    // The second copy has another way, so it can arrive at any time, also first.
    if (faults.occurs('duplicated command')) this.#world.after(this.#timing.detour(), arrive);
  }

  #reply(connection: Connection, receive: () => void): void {
    const faults = this.#faults;
    if (faults.occurs('lost reply')) return;
    connection.replyMs = Math.max(this.#world.nowMs + this.#timing.delay(), connection.replyMs);
    this.#world.at(connection.replyMs, receive);
    if (faults.occurs('duplicated reply')) this.#world.after(this.#timing.detour(), receive);
  }

  /** Opens another connection. The commands without a reply fail, but they may be executed. */
  #reconnect(): void {
    const { pending } = this.#connection;
    this.#connection = { commandMs: 0, replyMs: 0, pending: new Set() };
    for (const fail of pending) fail();
  }
}
