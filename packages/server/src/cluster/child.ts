/**
 * Runs in the supervisor: represents one child process (worker or store process). The supervisor
 * calls the child over Node's IPC channel and receives its heartbeats. A child that hangs is
 * killed. When the child has exited, all pending calls to it are rejected and `exited` resolves.
 */
import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { monotonicMs } from '../clock.ts';
import { withTimeout } from '../with-timeout.ts';
import { HUNG_MS, HUNG_STARVED_MS, isHeartbeat, type WatchedProcess } from './heartbeat.ts';
import { ProcessState } from './process-state.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';

/** How long the supervisor waits for the last messages of a child process that has exited. */
const DISCONNECT_MS = 1000;

export interface ExitStatus {
  readonly code: number | null;
  readonly signal: string | null;
  /** If the process was killed because it hung: the time since its last heartbeat. */
  readonly silentMs: number | undefined;
}

export class Child implements WatchedProcess {
  readonly rpc: RpcChannel;
  /** Resolves when the process has exited and all its messages have been read. */
  readonly exited: Promise<ExitStatus>;
  protected readonly process: ChildProcess;
  readonly #startedMs = monotonicMs();
  #lastBeatMs = this.#startedMs;
  #silentMs: number | undefined = undefined;
  /** Set while heartbeats are overdue. */
  #processState: ProcessState | undefined = undefined;
  protected state: 'starting' | 'serving' | 'stopping' = 'starting';

  /** `program` is the path of a compiled file, even if the supervisor runs from TypeScript. */
  constructor(program: string, args: readonly string[], stdio: StdioOptions) {
    this.process = fork(program, args, {
      stdio,
      serialization: 'json',
      // `--inspect` is not passed on: two processes cannot listen on one inspector port.
      execArgv: process.execArgv.filter((flag) => !flag.startsWith('--inspect')),
    });
    this.rpc = new RpcChannel(this.process as Port);
    this.process.on('message', (message) => this.onMessage(message));
    this.exited = this.#exit();
  }

  async #exit(): Promise<ExitStatus> {
    const { process } = this;
    const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
      process.once('exit', (...status) => resolve(status));
      // A process that could not be started has no pid and emits no 'exit'.
      process.on('error', () => this.pid === 0 && resolve([null, null]));
    });
    if (process.connected) {
      // The timer also keeps the supervisor running: when a socket is sent to a child, Node
      // unreferences the IPC channel of that child. Without the timer, the supervisor could exit
      // with code 13 (unsettled top-level await).
      const disconnected = new Promise<void>((resolve) => process.once('disconnect', resolve));
      await withTimeout(DISCONNECT_MS, disconnected);
    }
    this.rpc.close(`The process exited (${signal ?? `code ${code}`})`);
    return { code, signal, silentMs: this.#silentMs };
  }

  protected onMessage(message: unknown): void {
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

  /**
   * Called when the process has replied to the call `start` (worker), `load` or `open` (store
   * process).
   */
  protected markServing(): void {
    if (this.state === 'starting') this.state = 'serving';
    this.markAlive();
  }

  markAlive(): void {
    this.#lastBeatMs = monotonicMs();
    this.#processState = undefined;
  }

  /**
   * Kills the process if it hangs: at once if it is stopped (SIGSTOP, debugger), after
   * `HUNG_STARVED_MS` if it is starting or waits for CPU time, otherwise after `HUNG_MS`.
   */
  onSilence(silentMs: number): void {
    // `WorkerHandle.stop` kills a stopping worker after a timeout of its own.
    if (this.state === 'stopping' || this.#silentMs !== undefined) return;
    this.#processState ??= new ProcessState(this.pid);
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

  /** Sends a socket to the process with a message. Closes the socket if that fails. */
  protected pass(message: object, socket: Duplex): void {
    this.process.send(message, socket as Socket, {}, (error) => {
      if (error !== null) socket.destroy();
    });
  }

  /** Sends SIGKILL, which also ends a stopped process. */
  kill(): void {
    this.process.kill('SIGKILL');
  }
}
