/** A request that is repeated after `Retry-After` seconds passes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RequestOptions } from '../../src/http/options.ts';
import type { WindowAlgorithmName } from '../../src/index.ts';
import type { RunningServer } from '../../src/testing/index.ts';
import { adapters } from '../adapters/servers.ts';
import { Dice } from '../redis/traces.ts';

const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];
const DENIED = 200;

const servers: RunningServer[] = [];
beforeAll(async () => {
  for (const algorithm of ALGORITHMS) {
    const header = (request: unknown): string => adapters.node.header(request, 'x-client')!;
    const options: RequestOptions<unknown> = {
      key: header,
      cost: (request) => Number(adapters.node.header(request, 'x-cost')),
      limit: 10,
      window: 1500,
      algorithm,
    };
    servers.push(await adapters.node.serve(options));
  }
});
afterAll(() => Promise.all(servers.map((server) => server.close())));

it(`${DENIED} denied requests pass if they are repeated after Retry-After seconds`, async () => {
  const dice = new Dice(42);
  const clients = Array.from({ length: DENIED }, (_, number) => {
    const server = servers[number % servers.length];
    const send = (cost: number): Promise<Response> =>
      fetch(`http://127.0.0.1:${server.port}/`, {
        headers: { 'x-client': `client-${number}`, 'x-cost': String(cost) },
      });
    return { send, costs: Array.from({ length: 30 }, () => 1 + dice.roll(10)) };
  });
  const outcomes = await Promise.all(
    clients.map(async ({ send, costs }) => {
      for (const cost of costs) {
        const response = await send(cost);
        if (response.status === 200) continue;
        const seconds = Number(response.headers.get('retry-after'));
        await sleep(seconds * 1000);
        return { denied: response.status, after: (await send(cost)).status };
      }
      return 'was never denied';
    }),
  );
  expect(outcomes.filter((each) => JSON.stringify(each) !== '{"denied":429,"after":200}')).toEqual(
    [],
  );
});
