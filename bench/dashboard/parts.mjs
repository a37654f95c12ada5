/**
 * Contenders of the dashboard benchmark: the service with many policies, and a client of its event
 * stream.
 */
import { get } from 'node:http';
import { makeLog, openStore, readSettings, startService } from 'sluice-server';

const HOST = '127.0.0.1';
const POLICIES = 20;

export const policyName = (number) => `policy${number % POLICIES}`;

const config = {
  ...{ files: [], overrides: [], settings: {}, rules: [], domains: [], warnings: [] },
  policies: Array.from({ length: POLICIES }, (_, number) => ({
    name: policyName(number),
    // Every fourth policy has a low limit, so that the pages have denials to show.
    options: { limit: number % 4 === 0 ? 2 : 1_000_000, window: '1m' },
    shadow: number % 10 === 9,
  })),
};

/** Returns the CPU time of this process in microseconds. */
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function service() {
  const { settings } = readSettings({ listen: `${HOST}:0`, logLevel: 'error' }, {}, {});
  const store = await openStore(settings, { onWarning() {}, onConnection() {} });
  const load = async () => config;
  const running = await startService({ settings, store, log: makeLog(settings), config, load });
  return { port: () => running.http.port, cpu };
}

function listener() {
  let request;
  let ticks = 0;
  return {
    listen: (port) =>
      new Promise((resolve, reject) => {
        ticks = 0;
        request = get({ host: HOST, port, path: '/v1/events', agent: false }, (response) => {
          response.setEncoding('utf8').on('data', (text) => {
            ticks += text.split('event: tick').length - 1;
          });
          response.on('error', () => {});
          resolve(response.statusCode);
        });
        request.on('error', reject);
      }),
    /** Closes the stream. Returns the number of `tick` events received. */
    leave: () => {
      request.destroy();
      return ticks;
    },
  };
}

export const contenders = { service, listener };
