/** A process of the service as the supervisor sees it, from its start until its exit. */
import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { monotonicMs } from '../clock.ts';
import { withTimeout } from '../with-timeout.ts';
import { HUNG_MS, HUNG_STARVED_MS, isHeartbeat, type Watched } from './heartbeat.ts';
import { ProcessState } from './process-state.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';

/** How long the last messages of a process that has exited may take to be read. */
const DISCONNECT_MS = 1000;

export interface Departure {
  readonly code: number | null;
  readonly signal: string | null;
  /** For how long it was silent before it was killed for that; undefined if it exited itself. */
  readonly silentMs: number | undefined;
}

export class Child implements Watched {
  readonly rpc: RpcChannel;
  /** Resolves when the process has exited and all its messages have been read. */
  readonly gone: Promise<Departure>;
  protected readonly process: ChildProcess;
  readonly #bornMs = monotonicMs();
  #heardMs = this.#bornMs;
  #silentMs: number | undefined = undefined;
  #silence: ProcessState | undefined = undefined;
  protected state: 'starting' | 'serving' | 'leaving' = 'starting';

  /** `program` is built code: a process of its own, however this one was started. */
  constructor(program: string, args: readonly string[], stdio: StdioOptions) {
    this.process = fork(program, args, {
      stdio,
      serialization: 'json',
      // Two processes cannot be inspected on one port.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--inspect')),
    });
    this.rpc = new RpcChannel(this.process as Port);
    this.process.on('message', (message) => this.received(message));
    this.gone = this.#departure();
  }

  async #departure(): Promise<Departure> {
    const { process } = this;
    const exited = new Promise<[number | null, string | null]>((resolve) => {
      process.once('exit', (code, signal) => resolve([code, signal]));
      // A process that could not be started never exits.
      process.on('error', () => this.pid === 0 && resolve([null, null]));
    });
    const [code, signal] = await exited;
    if (process.connected) {
      // Bounded by a timer, which also keeps this process running: Node unreferences the channel of
      // a child process that a socket was sent to, and would exit with code 13 (unsettled await).
      const disconnected = new Promise<void>((resolve) => process.once('disconnect', resolve));
      await withTimeout(DISCONNECT_MS, disconnected);
    }
    this.rpc.close(`The process exited (${signal ?? `code ${code}`})`);
    return { code, signal, silentMs: this.#silentMs };
  }

  /** A message that may be a heartbeat. */
  protected received(message: unknown): void {
    if (isHeartbeat(message)) this.excuse();
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  get ageMs(): number {
    return monotonicMs() - this.#bornMs;
  }

  get isServing(): boolean {
    return this.state === 'serving';
  }

  get heardMs(): number {
    return this.#heardMs;
  }

  excuse(): void {
    this.#heardMs = monotonicMs();
    this.#silence = undefined;
  }

  /** Kills it if it hangs. SIGKILL ends a process that is stopped, too. */
  silent(silentMs: number): void {
    // One that is draining has a deadline of its own.
    if (this.state === 'leaving' || this.#silentMs !== undefined) return;
    this.#silence ??= new ProcessState(this.pid);
    // Nothing is won by waiting for one that is stopped.
    if (!this.#silence.isStopped()) {
      const isStarved = this.state === 'starting' || this.#silence.isStarved();
      if (silentMs < (isStarved ? HUNG_STARVED_MS : HUNG_MS)) return;
    }
    this.#silentMs = Math.round(silentMs);
    this.kill();
  }

  protected stdio(fd: number): Duplex {
    return this.process.stdio[fd] as Duplex;
  }

  /** Hands a socket over. The process has it when it has read the message. */
  protected pass(message: object, socket: Duplex): void {
    this.process.send(message, socket as Socket, {}, (error) => {
      if (error !== null) socket.destroy();
    });
  }

  kill(): void {
    this.process.kill('SIGKILL');
  }
}
