import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';

test.each(['store-main.js', 'worker-main.js'])(
  '%s exits during startup if its supervisor exits',
  async (program) => {
    for (const delayMs of [0, 50, 100, 200, 400]) {
      const path = new URL(`../../dist/cluster/${program}`, import.meta.url).pathname;
      const child = fork(path, [], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
      const exited = once(child, 'exit');
      await sleep(delayMs);
      child.disconnect();
      const result = await Promise.race([exited, sleep(20_000, 'still running')]);
      child.kill('SIGKILL');
      expect(result).toEqual([1, null]);
    }
  },
);
