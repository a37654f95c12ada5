/** What is known of an answer of Node's once it is out. */
import type { ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { whenOver } from '../../src/http/node-server.ts';
import { heard } from './answers.ts';

it.each([
  ['that is written at once', (response: ServerResponse) => response.end('hello')],
  [
    'that says so with its head',
    (response: ServerResponse) => response.writeHead(200, { 'content-length': 5 }).end('hello'),
  ],
  [
    'that has it as a field',
    (response: ServerResponse) => response.setHeader('content-length', 5).end('hello'),
  ],
])('the length of an answer is known of one %s', async (_, answer) => {
  const ends: unknown[] = [];
  await heard((response) => {
    whenOver('mine', response, (end) => void ends.push(end));
    answer(response);
  });
  expect(ends).toEqual([{ request: 'mine', status: 200, finished: true, bytes: 5 }]);
});
