/** The service of the demo: a real one, with a few policies and its counters in memory. */
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

/** What each client has, of requests that are asked about as a proxy would. */
export const CLIENT = { policy: 'each', limit: 30, windowMs: 1000 } as const;

/** The same limit, by the two algorithms that are compared. */
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

/** Others must not come: whoever reaches a service without an admin token may change it. */
function checkLoopback(given: string): void {
  const listen = readListen(given);
  if (listen === undefined || isLoopback(listen.host)) return;
  const here = listenText({ host: '127.0.0.1', port: listen.port });
  throw new Failure(
    `Expected --listen to be an address of this machine, such as ${here}, got ` +
      `\`${visible(given)}\`: the demo has no admin token`,
  );
}

/** Nothing that the environment says counts here: it is a demo, and on this machine only. */
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
