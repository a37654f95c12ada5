/** One worker, as the supervisor sees it: from its birth until it is gone. */
import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from 'sluice';
import { monotonicMs } from '../clock.ts';
import type { DoorName } from '../http/door.ts';
import { Dialogue, type Port } from './dialogue.ts';
import type { Host } from './doorman.ts';
import { DEADLINE_MS, STORE_FD, type StartOrder } from './messages.ts';

/** Built code: a worker is a process of its own, however this one was started. */
const PROGRAM = fileURLToPath(new URL('./worker-main.js', import.meta.url));

/** How much longer than it may drain a worker may take to go. */
const GRACE_MS = 2000;

/** Takes the lines of a log, such as to show them to people. */
export interface LogLines {
  write(line: string): void;
}

export interface Departure {
  readonly code: number | null;
  readonly signal: string | null;
}

export class Member implements Host {
  readonly dialogue: Dialogue;
  /** Resolves when the process is gone. */
  readonly gone: Promise<Departure>;
  readonly #process: ChildProcess;
  /** Connections on their way to it. */
  readonly #handedOver = new Set<Socket>();
  readonly #bornMs = monotonicMs();
  #state: 'starting' | 'serving' | 'leaving' = 'starting';

  /** `slot` counts from 1; whoever replaces a worker has the same. */
  constructor(
    readonly slot: number,
    logTo: LogLines | undefined,
  ) {
    this.#process = fork(PROGRAM, [], {
      // The last is the channel to the store: nobody but this worker has its other end.
      stdio: ['ignore', logTo === undefined ? 'inherit' : 'pipe', 'inherit', 'ipc', 'pipe'],
      serialization: 'json',
      // Two processes cannot be inspected on one port.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--inspect')),
    });
    if (logTo !== undefined) passLines(this.#process, logTo);
    this.dialogue = new Dialogue(this.#process as Port);
    this.gone = new Promise((resolve) => {
      const depart = (departure: Departure): void => {
        const { code, signal } = departure;
        // Node forgets those that were still to be sent, and their clients would wait for ever.
        for (const socket of this.#handedOver) socket.destroy();
        this.dialogue.close(`The worker is gone (${signal ?? `code ${code}`})`);
        resolve(departure);
      };
      this.#process.once('exit', (code, signal) => depart({ code, signal }));
      // A process that could not even be made never exits.
      this.#process.on('error', () => {
        if (this.pid === 0) depart({ code: null, signal: null });
      });
    });
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get ageMs(): number {
    return monotonicMs() - this.#bornMs;
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  get storeChannel(): Duplex {
    return this.#process.stdio[STORE_FD] as Duplex;
  }

  async start(order: StartOrder): Promise<void> {
    await this.dialogue.ask('start', order, DEADLINE_MS.start);
    if (this.#state === 'starting') this.#state = 'serving';
  }

  take(door: DoorName, socket: Socket): void {
    this.#handedOver.add(socket);
    this.#process.send({ kind: 'connection', door }, socket, {}, (error) => {
      this.#handedOver.delete(socket);
      if (error !== null) socket.destroy();
    });
  }

  /** Has it answer what is in flight and go; whatever happens, it is gone in the end. */
  async leave(drainMs: number): Promise<void> {
    const isServing = this.isServing;
    this.#state = 'leaving';
    if (!isServing) this.kill();
    else this.dialogue.ask('leave', undefined, drainMs + GRACE_MS).catch(() => {});
    const cancel = systemClock.schedule(drainMs + GRACE_MS, () => this.kill());
    await this.gone;
    cancel();
  }

  kill(): void {
    this.#process.kill('SIGKILL');
  }
}

function passLines({ stdout }: ChildProcess, logTo: LogLines): void {
  if (stdout === null) return;
  createInterface({ input: stdout }).on('line', (line) => {
    try {
      logTo.write(line);
    } catch {
      // Not a line of the log: somebody printed it.
      process.stderr.write(`${line}\n`);
    }
  });
}
