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
export const CLIENT = { policy: 'each', limit: 30, windowMs: 1000 } as const;

/** Limit of both algorithms that the demo compares. */
export const COMPARED = { limit: 50, windowMs: 3000 } as const;
export const ALGORITHMS = ['fixed-window', 'sliding-log'] as const;
export type Compared = (typeof ALGORITHMS)[number];

const POLICIES = `
policies:
  ${CLIENT.policy}: ${CLIENT.limit}/${CLIENT.windowMs}ms
${ALGORITHMS.map(
  (algorithm) =>
    `  ${algorithm}: { limit: ${COMPARED.limit}, window: ${COMPARED.windowMs}ms, ` +
    `algorithm: ${algorithm} }`,
).join('\n')}
rules:
  - limits: [{ policy: ${CLIENT.policy} }]
`;

/** Throws unless the address is loopback: the demo has no admin token to protect the admin API. */
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
