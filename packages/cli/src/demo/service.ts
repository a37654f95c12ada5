/** Starts the service of the demo: the real service, with three policies and the memory store. */
import {
  type Config,
  isLoopback,
  listenText,
  makeLog,
  openStore,
  readConfig,
  readListen,
  readSettings,
  type Service,
  startService,
  storeListeners,
} from 'sluice-server';
import { Failure, visible } from '../output.ts';
import { startFailure } from '../start-failure.ts';

/** Limit per client of the forward-auth requests. */
export const CLIENT_LIMIT = { policy: 'each', limit: 30, windowMs: 1000 } as const;

/** Limit of each of the two algorithms that the demo compares. */
export const COMPARED_LIMIT = { limit: 50, windowMs: 3000 } as const;
export const ALGORITHMS = ['fixed-window', 'sliding-log'] as const;
export type ComparedAlgorithm = (typeof ALGORITHMS)[number];

const POLICIES = `
policies:
  ${CLIENT_LIMIT.policy}: ${CLIENT_LIMIT.limit}/${CLIENT_LIMIT.windowMs}ms
${ALGORITHMS.map(
  (algorithm) =>
    `  ${algorithm}: { limit: ${COMPARED_LIMIT.limit}, window: ${COMPARED_LIMIT.windowMs}ms, ` +
    `algorithm: ${algorithm} }`,
).join('\n')}
rules:
  - limits: [{ policy: ${CLIENT_LIMIT.policy} }]
`;

/**
 * Throws if the address is not loopback, because no admin token protects the admin API of the demo.
 */
function checkLoopback(given: string): void {
  const listen = readListen(given);
  if (listen === undefined || isLoopback(listen.host)) return;
  const here = listenText({ host: '127.0.0.1', port: listen.port });
  throw new Failure(
    `Expected --listen to be a loopback address, such as ${here}, got ` +
      `\`${visible(given)}\`: the demo has no admin token`,
  );
}

/** Starts the service. Ignores environment variables. */
export async function startDemoService(listen: string): Promise<Service> {
  checkLoopback(listen);
  const config: Config = readConfig([{ path: 'demo.yaml', text: POLICIES }]);
  const { settings } = readSettings({ listen, logLevel: 'silent', drainMs: '1s' }, {}, {});
  const log = makeLog(settings);
  const store = await openStore(settings, storeListeners(log));
  const options = { settings, store, log, config, load: async () => config };
  return startService(options).catch(async (error) => {
    await store.close();
    throw startFailure(error, settings);
  });
}
