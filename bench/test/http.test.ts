import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { compare, loadRows } from '../http/compare.mjs';
import { readResponse, run } from '../http/load.mjs';

describe('readResponse', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n';
  const sized = `${head}content-length: 5\r\n\r\nhello`;
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`;

  it.each([
    ['with a length', sized],
    ['in chunks', chunked],
    ['without a body', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ])('readResponse reads a response %s to its end', (_, text) => {
    expect(readResponse(text)).toEqual({ status: 200, end: text.length });
    expect(readResponse(`${text}HTTP/1.1`)).toEqual({ status: 200, end: text.length });
    for (let end = 0; end < text.length; end++)
      expect(readResponse(text.slice(0, end))).toBe(undefined);
  });

  it('readResponse returns the status', () => {
    const refused = 'HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n';
    expect(readResponse(refused)).toMatchObject({ status: 429 });
  });

  it('readResponse rejects a response of unknown length', () => {
    expect(() => readResponse(`${head}\r\nhello`)).toThrow('Expected Content-Length or chunks');
  });
});

describe('run', () => {
  let server: Server;
  afterEach(() => server.close());

  async function serve(listener: Parameters<typeof createServer>[1]): Promise<number> {
    server = createServer(listener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  }

  it('run sends the requested number of requests, one at a time on each connection', async () => {
    let [connections, now, most, made] = [0, 0, 0, 0];
    const port = await serve((_, response) => {
      most = Math.max(most, ++now);
      made++;
      setTimeout(() => {
        now--;
        response.end('hello');
      }, made % 3);
    });
    server.on('connection', () => connections++);
    const cost = await run(port, { connections: 4, status: 200 }, 50);
    expect([connections, most, made, now]).toEqual([4, 4, 50, 0]);
    expect(cost.time).toBeGreaterThan(0);
    expect(cost.load).toBeGreaterThan(0);
  });

  it.each([
    ['another status', { status: 429 }, 'Unexpected response HTTP/1.1 200'],
    ['a closed connection', { status: 200 }, 'The server closed a connection'],
  ])('run rejects after %s', async (_, { status }, message) => {
    let made = 0;
    const port = await serve((_request, response) => {
      if (++made === 5 && status === 200) response.destroy();
      else response.end();
    });
    await expect(run(port, { connections: 2, status }, 20)).rejects.toThrow(message);
  });
});

describe('comparison', () => {
  const cost = (time: number, server: number) => ({ time, server, load: 20_000 });
  const turns = new Map([
    ['x, ours', [cost(40_000, 30_000), cost(50_000, 40_000), cost(60_000, 50_000)]],
    ['x, bare', [cost(20_000, 15_000), cost(40_000, 30_000), cost(54_000, 40_000)]],
  ]);

  it('the comparison reports throughput, CPU time per request and utilization', () => {
    expect(loadRows(turns, 'busy')[0]).toEqual({
      measure: 'busy',
      contender: 'x, ours',
      'requests/s': 20_000,
      'spread %': 40,
      'server CPU us': 40,
      'server busy %': 80,
      'load busy %': 40,
    });
  });

  it('the ratio of two contenders is the median over the turns', () => {
    const result = { ratios: {}, bars: [] };
    compare(result, turns, 'busy', ['x, ours', 'x, bare', 0.9]);
    compare(result, turns, 'busy', ['x, bare', 'x, ours']);
    expect(result).toEqual({
      ratios: {
        'x, ours / bare, busy': 0.8,
        'CPU, x, ours / bare, busy': 0.75,
        'spread %, x, ours / bare, busy': 50,
        'x, bare / ours, busy': 1.25,
        'CPU, x, bare / ours, busy': 1.333,
        'spread %, x, bare / ours, busy': 71,
      },
      bars: [{ name: 'x, ours / bare, busy', need: '>= 0.9', got: 0.8, ok: false }],
    });
  });

  it('compare can require a ratio of the CPU time per request', () => {
    const result = { ratios: {}, bars: [] };
    compare(result, turns, 'busy', ['x, ours', 'x, bare', 0.7], 'server');
    expect(result.bars).toEqual([
      { name: 'CPU, x, ours / bare, busy', need: '>= 0.7', got: 0.75, ok: true },
    ]);
  });
});
