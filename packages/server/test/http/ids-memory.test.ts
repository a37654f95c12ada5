import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Without a bound, the ids of 700 requests take more than the heap that the test allows. */
const REQUESTS = process.env.SLUICE_CAMPAIGN === 'full' ? 1100 : 700;
const AT_ONCE = 4;
const LIMITS = 64;
const HEAP_MB = 160;

let child: ChildProcess;
let url: string;
let hasExited = false;

beforeAll(async () => {
  const path = new URL('hostile-service.mjs', import.meta.url).pathname;
  child = fork(path, { execArgv: ['--expose-gc', `--max-old-space-size=${HEAP_MB}`] });
  child.once('exit', () => {
    hasExited = true;
  });
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  url = `http://127.0.0.1:${port}/v1/check`;
});
afterAll(() => {
  child.kill();
});

function bodyOf(request: number): string {
  const limits = Array.from({ length: LIMITS }, (_, at) => ({
    policy: 'many',
    key: `${request}-${at}-`.padEnd(1024, 'k'),
  }));
  return JSON.stringify({ limits, id: `request ${request}` });
}

test('checks with unique ids and the longest keys do not exhaust the heap', async () => {
  const statuses = new Set<number>();
  const send = async (first: number): Promise<void> => {
    for (let request = first; request < REQUESTS; request += AT_ONCE) {
      const response = await fetch(url, { method: 'POST', body: bodyOf(request) });
      await response.arrayBuffer();
      statuses.add(response.status);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => send(first)));
  expect([...statuses]).toEqual([200]);
  child.send('read');
  const [{ heapUsed }] = (await once(child, 'message')) as [{ heapUsed: number }];
  expect(heapUsed).toBeLessThan((HEAP_MB / 2) * 2 ** 20);
  expect(hasExited).toBe(false);
});
