/** One worker, as the supervisor sees it: from its birth until it is gone. */
import cluster, { type Worker } from 'node:cluster';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { systemClock } from 'sluice';
import { monotonicMs } from '../clock.ts';
import { Dialogue, type Port } from './dialogue.ts';
import { DEADLINE_MS, STORE_FD, type Started, type StartOrder } from './messages.ts';

/** Built code: a worker is a process of its own, which knows nothing of how this one was started. */
const PROGRAM = fileURLToPath(new URL('./worker-main.js', import.meta.url));

/** How much longer than it may drain a worker may take to go. */
const GRACE_MS = 2000;

export interface Departure {
  readonly code: number | null;
  readonly signal: string | null;
}

export class Member {
  readonly dialogue: Dialogue;
  /** Resolves when the process is gone. */
  readonly gone: Promise<Departure>;
  readonly #worker: Worker;
  readonly #bornMs = monotonicMs();
  #state: 'born' | 'starting' | 'serving' | 'leaving' = 'born';
  readonly #isHere: Promise<void>;

  /** `slot` counts from 1; whoever replaces a worker has the same. */
  constructor(readonly slot: number) {
    cluster.setupPrimary({
      exec: PROGRAM,
      args: [],
      // The fifth is the channel to the store: nobody but this worker has its other end.
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
      serialization: 'json',
    });
    this.#worker = cluster.fork();
    this.dialogue = new Dialogue(this.#worker as Port);
    this.#isHere = new Promise((resolve) => this.dialogue.answer('here', () => resolve()));
    this.gone = new Promise((resolve) => {
      const depart = (departure: Departure): void => {
        this.dialogue.close('The worker is gone');
        resolve(departure);
      };
      this.#worker.once('exit', (code, signal) => depart({ code, signal }));
      // A process that could not even be made never exits.
      this.#worker.on('error', () => {
        if (this.pid === 0) depart({ code: null, signal: null });
      });
    });
  }

  get pid(): number {
    return this.#worker.process.pid ?? 0;
  }

  get ageMs(): number {
    return monotonicMs() - this.#bornMs;
  }

  /** Whether it is told what happens; before that, it is told with its order. */
  get isListening(): boolean {
    return this.#state === 'starting' || this.#state === 'serving';
  }

  get isServing(): boolean {
    return this.#state === 'serving';
  }

  get storeChannel(): Duplex {
    return this.#worker.process.stdio[STORE_FD] as Duplex;
  }

  async start(orderOf: () => StartOrder): Promise<Started> {
    const cancel = systemClock.schedule(DEADLINE_MS.start, () => this.kill());
    await Promise.race([this.#isHere, this.gone]);
    cancel();
    if (this.#state === 'born') this.#state = 'starting';
    const started = await this.dialogue.ask('start', orderOf(), DEADLINE_MS.start);
    if (this.#state === 'starting') this.#state = 'serving';
    return started as Started;
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
    this.#worker.process.kill('SIGKILL');
  }
}
