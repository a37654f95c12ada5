import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { LARGE_BODIES_BYTES } from '../../src/http/body-budget.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { checkText, exchange, headOf, isWhole, open } from './raw.ts';

let running: Running;
let port: number;
beforeAll(async () => {
  running = await startRunning({ config: { policies: [policy('many', 1_000_000, '1h')] } });
  ({ port } = running.service.http);
});
afterAll(() => running.close());

const SENT_BYTES = 1_000_000;
const ENOUGH = Math.ceil(LARGE_BODIES_BYTES / SENT_BYTES) + 4;

/** Sends a body without its last byte. */
async function sendUnfinished(): Promise<{ socket: Socket; text: () => string }> {
  const socket = await open(port);
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString();
  });
  socket.write(headOf('POST', '/v1/check', `Content-Length: ${SENT_BYTES + 1}`));
  if (!socket.write(Buffer.alloc(SENT_BYTES, ' '))) await once(socket, 'drain');
  return { socket, text: () => text };
}

test('large bodies share a memory budget, and a small check is always accepted', async () => {
  const unfinished: Awaited<ReturnType<typeof sendUnfinished>>[] = [];
  for (let at = 0; at < ENOUGH; at++) unfinished.push(await sendUnfinished());
  const rejected = () => unfinished.filter(({ text }) => text() !== '');
  await expect.poll(() => rejected().length, { timeout: 30_000 }).toBeGreaterThan(0);
  for (const { text } of rejected()) {
    expect(text()).toContain('HTTP/1.1 503 ');
    expect(text().toLowerCase()).toContain('retry-after: 1\r\n');
    expect(text()).toContain('"code":"ERR_TOO_BUSY"');
  }
  const small = checkText({ policy: 'many', key: 'a' });
  expect((await exchange(port, [small], { until: isWhole })).status).toBe(200);
  for (const { socket } of unfinished) socket.destroy();
  const limits = Array.from({ length: 64 }, (_, at) => ({
    policy: 'many',
    key: `${at}`.padEnd(1000, 'k'),
  }));
  const large = checkText({ limits });
  const sendLarge = async () => (await exchange(port, [large], { until: isWhole })).status;
  await expect.poll(sendLarge, { timeout: 30_000 }).toBe(200);
});
