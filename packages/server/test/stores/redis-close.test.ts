import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { startCluster } from '../../../../tools/servers/redis.mjs';

const CLIENT = new URL('../../dist/stores/redis/client.js', import.meta.url);

/** Opens the client, prints a line when it is connected, and closes it when its input ends. */
const PROGRAM = `
  import { openRedisClient } from '${CLIENT}';
  const hosts = JSON.parse(process.argv[1]);
  const opened = await openRedisClient({ kind: 'redis+cluster', hosts, isTls: false, login: {} });
  opened.client.on('error', () => {});
  opened.client.once('ready', () => console.log('ready'));
  process.stdin.on('end', () => opened.close()).resume();
`;

test('a process that closes the client of a Cluster while it reads the slots exits', async () => {
  const cluster = await startCluster({ nodeTimeoutMs: 30_000 });
  const hosts = JSON.stringify(cluster.nodes.map(({ host, port }) => ({ host, port })));
  const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, hosts], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  try {
    const exited = once(child, 'exit');
    await once(child.stdout, 'data');
    // The client reads the slots once a second and waits up to half a second. With paused nodes,
    // it is usually waiting.
    await Promise.all(cluster.nodes.map((node) => node.pause()));
    await new Promise((resolve) => setTimeout(resolve, 1200));
    child.stdin.end();
    const outcome = await Promise.race([
      exited,
      new Promise((resolve) => setTimeout(resolve, 20_000, ['still running'])),
    ]);
    expect(outcome).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
    await cluster.stop();
  }
});
