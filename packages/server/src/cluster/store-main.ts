/**
 * The program of the store process. It replies to the checks of all workers, one channel each, and
 * sends heartbeats to the supervisor. If a worker sends an invalid line, the supervisor is notified
 * and kills that worker. If the supervisor exits, the store process exits too.
 */
import { Socket } from 'node:net';
import { memoryStore, type SyncStore } from 'sluice';
import { isRecord } from 'sluice/engine';
import { exitWithSupervisor } from './exit-with-supervisor.ts';
import { sendHeartbeats } from './heartbeat.ts';
import { type StoreParameters, storeChannelFd } from './messages.ts';
import { type Port, RpcChannel } from './rpc-channel.ts';
import { StoreServer } from './store-server.ts';

class StoreMain {
  #store: SyncStore | undefined = undefined;
  #server: StoreServer | undefined = undefined;
  #evictedBefore = 0;
  /** Channels that arrived before the call `open`. */
  readonly #waiting: (readonly [worker: number, channel: Socket])[] = [];

  open({ maxKeys, evicted, workers }: StoreParameters): void {
    this.#store = memoryStore({ maxKeys });
    this.#evictedBefore = evicted;
    this.#server = new StoreServer(this.#store, evicted);
    for (const worker of workers) {
      this.serve(
        worker,
        new Socket({ fd: storeChannelFd(worker), readable: true, writable: true }),
      );
    }
    for (const [worker, channel] of this.#waiting.splice(0)) this.serve(worker, channel);
  }

  serve(worker: number, channel: Socket): void {
    if (this.#server === undefined) this.#waiting.push([worker, channel]);
    this.#server?.serve(channel, ({ message }) =>
      process.send?.({ kind: 'violation', worker, message }, () => {}),
    );
  }

  /** Sizes of the store for the heartbeat; empty before the call `open`. */
  get state(): object {
    if (this.#store === undefined) return {};
    const { size, evicted = 0, guaranteedKeys } = this.#store;
    return { size, evicted: this.#evictedBefore + evicted, guaranteedKeys };
  }
}

const main = new StoreMain();
// Ctrl-C in a terminal sends SIGINT to all processes. Only the supervisor handles signals.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
exitWithSupervisor();
process.on('message', (message: unknown, channel: unknown) => {
  if (!isRecord(message) || message.kind !== 'channel') return;
  if (channel instanceof Socket) main.serve(message.worker as number, channel);
});
const rpc = new RpcChannel(process as Port);
rpc.handle('load', () => undefined);
rpc.handle('open', (parameters) => main.open(parameters as StoreParameters));
sendHeartbeats(() => main.state);
