/** The options `allow` and `deny`, which list networks. */
import { createServer } from 'node:http';
import express from 'express';
import { describe, expect, it } from 'vitest';
import { rateLimit as expressLimit } from '../../src/adapters/express.ts';
import { rateLimit as fetchLimit } from '../../src/adapters/fetch.ts';
import { withServer } from './listening.ts';

const ONE = { limit: 1, window: '1h' } as const;
const newRequest = () => new Request('http://localhost/');

describe('network lists', () => {
  it('Express: a denied network gets 403, regardless of statusCode and message', async () => {
    const app = express();
    app.use(
      expressLimit({ ...ONE, deny: ['loopback'], statusCode: 420, message: 'slow' }) as never,
    );
    await withServer(createServer(app), async (url) => {
      const response = await fetch(url);
      expect([response.status, await response.json()]).toEqual([
        403,
        { type: 'about:blank', title: 'Forbidden', status: 403 },
      ]);
    });
  });

  it('with trustProxy: 1, a request without X-Forwarded-For matches no network list', async () => {
    const limited = fetchLimit({ ...ONE, trustProxy: 1, allow: ['loopback'], onWarning: () => {} });
    const GET = limited(() => new Response('hello'));
    expect([(await GET(newRequest())).status, (await GET(newRequest())).status]).toEqual([
      200, 429,
    ]);
  });
});
