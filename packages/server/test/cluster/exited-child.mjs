/**
 * Waits for a child process whose channel stays open after its exit: the child leaves a process of
 * its own behind that has inherited the channel. Exits with 0 if the wait ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Child } from '../../dist/cluster/child.js';

const IPC_FD = 3;

class TestChild extends Child {
  /** Node unreferences the channel of a child process that a socket was sent to. */
  async sendSocket() {
    const server = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect(server.address().port, '127.0.0.1').on('error', () => {});
    const [socket] = await once(server, 'connection');
    const exited = once(this.process, 'exit');
    this.pass({}, socket);
    await exited;
    client.destroy();
    server.close();
  }
}

if (process.argv[2] === 'child') {
  process.once('message', () => {
    const stdio = ['ignore', 'ignore', 'ignore', IPC_FD];
    spawn('sleep', ['5'], { stdio, detached: true }).unref();
    process.exit(0);
  });
} else {
  const ipc = ['ignore', 'inherit', 'inherit', 'ipc'];
  const child = new TestChild(fileURLToPath(import.meta.url), ['child'], ipc);
  await child.sendSocket();
  await child.exited;
}
