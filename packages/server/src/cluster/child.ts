/** A process of the service as the supervisor sees it, from its start until its exit. */
import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { monotonicMs } from '../clock.ts';
import { withTimeout } from '../with-timeout.ts';
import { HUNG_MS, HUNG_STARVED_MS, isHeartbeat, type Watched } from './heartbeat.ts';
import { ProcessState } from './process-state.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';

/** How long the supervisor waits for the last messages of a process that has exited. */
const DISCONNECT_MS = 1000;

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  /** Silence for which it was killed; undefined if it exited by itself. */
  readonly silentMs: number | undefined;
}

export class Child implements Watched {
  readonly rpc: RpcChannel;
  /** Resolves when the process has exited and all its messages have been read. */
  readonly exited: Promise<Exit>;
  protected readonly process: ChildProcess;
  readonly #startedMs = monotonicMs();
  #lastBeatMs = this.#startedMs;
  #silentMs: number | undefined = undefined;
  /** Set during a silence. */
  #processState: ProcessState | undefined = undefined;
  protected state: 'starting' | 'serving' | 'stopping' = 'starting';

  /** `program` is built code, also if this process runs TypeScript. */
  constructor(program: string, args: readonly string[], stdio: StdioOptions) {
    this.process = fork(program, args, {
      stdio,
      serialization: 'json',
      // Two processes cannot be inspected on one port.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--inspect')),
    });
    this.rpc = new RpcChannel(this.process as Port);
    this.process.on('message', (message) => this.received(message));
    this.exited = this.#exit();
  }

  async #exit(): Promise<Exit> {
    const { process } = this;
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
      process.once('exit', (...status) => resolve(status));
      // A process that could not be started has no pid and emits no 'exit'.
      process.on('error', () => this.pid === 0 && resolve([null, null]));
    });
    if (process.connected) {
      // Bounded by a timer, which also keeps this process running: Node unreferences the channel of
      // a child process that a socket was sent to, and would exit with code 13 (unsettled await).
      const disconnected = new Promise<void>((resolve) => process.once('disconnect', resolve));
      await withTimeout(DISCONNECT_MS, disconnected);
    }
    this.rpc.close(`The process exited (${signal ?? `code ${code}`})`);
    return { code, signal, silentMs: this.#silentMs };
  }

  protected received(message: unknown): void {
    if (isHeartbeat(message)) this.markAlive();
  }

  get pid(): number {
    return this.process.pid ?? 0;
  }

  get ageMs(): number {
    return monotonicMs() - this.#startedMs;
  }

  get isServing(): boolean {
    return this.state === 'serving';
  }

  get lastBeatMs(): number {
    return this.#lastBeatMs;
  }

  /** Called when the process has replied to its first request. */
  protected markServing(): void {
    if (this.state === 'starting') this.state = 'serving';
    this.markAlive();
  }

  markAlive(): void {
    this.#lastBeatMs = monotonicMs();
    this.#processState = undefined;
  }

  /** Kills the process if it hangs. SIGKILL also ends a stopped process. */
  onSilence(silentMs: number): void {
    // A process that is shutting down has its own deadline.
    if (this.state === 'stopping' || this.#silentMs !== undefined) return;
    this.#processState ??= new ProcessState(this.pid);
    // Waiting does not help a stopped process.
    if (!this.#processState.isStopped()) {
      const isStarved = this.state === 'starting' || this.#processState.isStarved();
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
