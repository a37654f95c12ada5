/** The part of the adapter contract about the `concurrency` option. */
import { connect } from 'node:net';
import {
  type AdapterCase,
  adapterCase,
  type CaseContext,
  equal,
  eventually,
  type OptionsOf,
} from './adapter-case.ts';

const oneAtATime: OptionsOf = () => ({
  concurrency: 1,
  lease: '1h',
  name: 'slots',
  key: () => 'all',
});

/** A case that passes without a test if the store does not support concurrency limits. */
function concurrencyCase(
  name: string,
  optionsOf: OptionsOf,
  test: (world: CaseContext) => Promise<void>,
): AdapterCase {
  return {
    name,
    async run(adapter, openStore) {
      const store = await openStore();
      if (store.features?.includes('concurrency')) {
        await adapterCase(name, optionsOf, test).run(adapter, () => store);
      } else await store.close();
    },
  };
}

/** Expects that soon after a request has ended, the next request is admitted. */
const expectReleased = (world: CaseContext): Promise<void> =>
  eventually('status after the release', async () => (await world.request()).status, 200);

export const concurrencyCases: readonly AdapterCase[] = [
  concurrencyCase(
    'holds a concurrency limit until the response has ended',
    oneAtATime,
    async (world) => {
      const slow = world.request({ 'x-wait': '300' });
      await eventually('requests that reached the handler', () => world.server.reached(), 1);
      const denied = await world.request();
      equal('status of a request during the first one', denied.status, 429);
      equal('Retry-After is above 3500', Number(denied.headers.get('retry-after')) > 3500, true);
      const policy = '"slots";q=1;qu="concurrent-requests"';
      equal('header RateLimit-Policy', denied.headers.get('ratelimit-policy'), policy);
      equal('header RateLimit', denied.headers.get('ratelimit'), '"slots";r=0');
      equal('status of the first request', (await slow).status, 200);
      await expectReleased(world);
    },
  ),

  concurrencyCase(
    'releases a concurrency limit if the handler throws',
    oneAtATime,
    async (world) => {
      equal('status', (await world.request({ 'x-throw': 'yes' })).status, 500);
      await expectReleased(world);
    },
  ),

  concurrencyCase(
    'releases a concurrency limit if the client aborts',
    oneAtATime,
    async (world) => {
      const socket = connect(world.server.port, '127.0.0.1');
      socket.write('GET / HTTP/1.1\r\nHost: a\r\nX-Wait: 2000\r\n\r\n');
      await eventually('requests that reached the handler', () => world.server.reached(), 1);
      equal('status of a request during the first one', (await world.request()).status, 429);
      socket.destroy();
      await expectReleased(world);
    },
  ),

  concurrencyCase(
    'a request denied by a concurrency limit is not charged to a window limit',
    () => ({ limit: 3, window: '1h', concurrency: 1, name: 'both', key: () => 'all' }),
    async (world) => {
      const slow = world.request({ 'x-wait': '300' });
      await eventually('requests that reached the handler', () => world.server.reached(), 1);
      equal('status of a request during the first one', (await world.request()).status, 429);
      const policies = (await slow).headers.get('ratelimit-policy');
      equal(
        'header RateLimit-Policy',
        policies,
        '"both";q=3;w=3600, "both-concurrency";q=1;qu="concurrent-requests"',
      );
      await expectReleased(world);
      await expectReleased(world);
      equal('status after three admitted requests', (await world.request()).status, 429);
    },
  ),
];
