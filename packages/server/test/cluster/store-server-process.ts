/** Client of `store-server-process.mjs`, for tests. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RemoteStore } from '../../src/cluster/remote-store.ts';

const PROGRAM = new URL('store-server-process.mjs', import.meta.url);

export class StoreServerProcess {
  readonly violations: string[] = [];

  private constructor(
    readonly child: ChildProcess,
    private readonly folder: string,
  ) {
    child.on('message', ({ violation }: { violation?: string }) => {
      if (violation !== undefined) this.violations.push(violation);
    });
  }

  static async start(): Promise<StoreServerProcess> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-store-server-'));
    const child = fork(PROGRAM, [join(folder, 'alone'), join(folder, 'shared')], { execArgv: [] });
    const [message] = await Promise.race([once(child, 'message'), once(child, 'exit')]);
    if (!message?.ready) throw new Error('The store server did not start. Run the build first.');
    return new StoreServerProcess(child, folder);
  }

  async channel(which: 'alone' | 'shared'): Promise<Socket> {
    const socket = connect(join(this.folder, which));
    await once(socket, 'connect');
    return socket;
  }

  async store(which: 'alone' | 'shared' = 'alone'): Promise<RemoteStore> {
    return new RemoteStore(await this.channel(which));
  }

  async stop(): Promise<void> {
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
