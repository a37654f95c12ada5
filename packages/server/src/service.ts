/** The service: a desk over a store, a configuration, and the protocols that ask them. */
import type { Config } from './config/model.ts';
import { Configuration } from './configuration.ts';
import { dashboardRoutes } from './dashboard/routes.ts';
import { Desk } from './desk.ts';
import type { GrpcServer } from './envoy-rls/grpc-server.ts';
import { jsonHandler } from './envoy-rls/json-handler.ts';
import { forwardAuthRoutes } from './forward-auth/routes.ts';
import { AccessControl } from './http/access.ts';
import { Certificates, loadWith } from './http/certificates.ts';
import { type RouteName, Router } from './http/router.ts';
import { HttpServer } from './http/server.ts';
import { adminRoutes } from './http-api/admin.ts';
import { checkHandler } from './http-api/check.ts';
import { learnEnded, sessionRoutes } from './http-api/session.ts';
import { TokenAttempts } from './http-api/token-attempts.ts';
import { EvictionLog } from './observe/eviction-log.ts';
import { Health, healthRoutes } from './observe/health.ts';
import { Live } from './observe/live.ts';
import { DenialLog, type Logger, StoreLog } from './observe/log.ts';
import { jointMetricsText, Metrics, type MetricsData, metricsRoutes } from './observe/metrics.ts';
import { seriesRoutes } from './observe/series.ts';
import { type TopBy, type TopData, TopKeys, topRoutes } from './observe/top-keys.ts';
import { OverridesFile } from './overrides-file.ts';
import type { Parts } from './parts.ts';
import { type Listen, listenText, type Settings } from './settings.ts';
import type { OpenStore } from './store-url.ts';
import { type Crew, LoneCrew } from './workers/crew.ts';

export interface ServiceOptions {
  readonly settings: Settings;
  readonly store: OpenStore;
  readonly log: Logger;
  readonly config: Config;
  /** Reads the files again, for a reload. */
  readonly load: () => Promise<Config>;
  /** Those who serve beside this process. Default: nobody. */
  readonly crew?: Crew;
}

export interface Service {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  readonly http: Listen;
  readonly grpc: Listen | undefined;
  readonly parts: Parts;
  /** All that is served over HTTP. */
  readonly routes: readonly RouteName[];
  /** Answers what is in flight, then lets everything go. */
  close(): Promise<void>;
}

function routes(parts: Parts): Router {
  const { desk, settings } = parts;
  const router = new Router();
  router.add('POST', '/v1/check', 'open', checkHandler(desk, false, settings.headers));
  router.add('POST', '/v1/peek', 'open', checkHandler(desk, true, settings.headers));
  router.add('POST', '/json', 'open', jsonHandler(parts));
  forwardAuthRoutes(router, parts);
  adminRoutes(router, parts);
  sessionRoutes(router, parts);
  healthRoutes(router, parts);
  watchRoutes(router, parts);
  dashboardRoutes(router, parts.log);
  return router;
}

/** Metrics, top keys and history are those of all processes that serve together. */
function watchRoutes(router: Router, parts: Parts): void {
  const { crew, metrics, topKeys, live } = parts;
  crew.answer('metrics', () => metrics.data());
  metricsRoutes(router, async () => {
    const all = (await crew.gather('metrics')) as MetricsData[];
    return crew.door === undefined ? metrics.text() : jointMetricsText(all);
  });
  crew.answer('top', (detail) => topKeys.data(...(detail as [string, TopBy])));
  topRoutes(router, parts, async (...detail) => (await crew.gather('top', detail)) as TopData[]);
  seriesRoutes(router, parts, live);
}

/** Its libraries are loaded only if it is on. */
async function startGrpc(parts: Parts): Promise<GrpcServer | undefined> {
  const { grpc } = parts.settings;
  if (grpc === undefined) return undefined;
  const { startGrpcServer } = await import('./envoy-rls/grpc-server.ts');
  return startGrpcServer(parts, grpc);
}

/**
 * Has the store answer once, as soon as it can: it tells what is wrong with its server after its
 * first answer, and that must not be left to whoever comes first. One that is away is waited for.
 */
async function meetStore({ desk, store }: Pick<Parts, 'desk' | 'store'>): Promise<void> {
  if (store.connected === undefined) return;
  await store.connected;
  await desk.probe();
}

export async function startService(options: ServiceOptions): Promise<Service> {
  const { settings, store, log, config, load, crew = new LoneCrew() } = options;
  const desk = new Desk(store.store);
  const certificates = await Certificates.open(settings);
  const configuration = new Configuration(desk, config, loadWith(load, certificates));
  configuration.onReload(({ ok }) => {
    if (ok) certificates?.use();
  });
  const { overridesFile: path } = settings;
  const overridesFile = path === undefined ? undefined : await OverridesFile.open(path, desk, log);
  const health = new Health(desk);
  const metrics = new Metrics({ desk, configuration, store, health });
  const topKeys = new TopKeys();
  const watchers = { health, metrics, topKeys };
  const base = { settings, certificates, desk, configuration, store, log, crew, overridesFile };
  const live = new Live({ ...base, ...watchers });
  const attempts = new TokenAttempts(settings, desk, log);
  const access = new AccessControl(settings, attempts);
  const parts: Parts = { ...base, ...watchers, live, access, attempts };
  const denialLog = new DenialLog(log, settings);
  const storeLog = new StoreLog(log);
  // Beside other processes, the one that holds the store logs what it evicts.
  const evictionLog = options.crew === undefined ? new EvictionLog(log, store.store) : undefined;
  desk.watch(metrics.watch, metrics.onFailure);
  desk.watch(topKeys.watch);
  desk.watch(denialLog.watch);
  desk.watch(storeLog.watch, storeLog.onFailure);
  crew.join(desk, configuration);
  const router = routes(parts);
  const server = new HttpServer(router, access, certificates, log, metrics);
  metrics.readTraffic(server);
  await learnEnded(parts);
  const grpc = await startGrpc(parts).catch(async (error) => {
    await overridesFile?.close();
    throw error;
  });
  const http = await server.listen(settings.listen, crew.door).catch(async (error) => {
    await grpc?.close(0);
    await overridesFile?.close();
    throw error;
  });
  live.start();
  evictionLog?.start();
  void meetStore(parts);
  const scheme = settings.tlsCert === undefined ? 'http' : 'https';
  return {
    url: `${scheme}://${listenText(http)}`,
    http,
    grpc: grpc?.listen,
    parts,
    routes: router.list(),
    close: async () => {
      health.isDraining = true;
      live.close();
      const [cut] = await Promise.all([
        server.close(settings.drainMs),
        grpc?.close(settings.drainMs),
      ]);
      if (cut > 0) log.warn({ requests: cut }, 'not answered before the time to stop was up');
      denialLog.flush();
      evictionLog?.stop();
      attempts.close();
      await overridesFile?.close();
      await store.store.close();
      await store.close();
    },
  };
}
