/** Starts the service: store, configuration, protocols, observers. */

import type { AppContext } from './app-context.ts';
import { type ProcessGroup, SingleProcess } from './cluster/process-group.ts';
import type { Config } from './config/model.ts';
import { Configuration } from './configuration.ts';
import { dashboardRoutes } from './dashboard/routes.ts';
import { DecisionService } from './decision-service.ts';
import type { GrpcServer } from './envoy-rls/grpc-server.ts';
import { jsonHandler } from './envoy-rls/json-handler.ts';
import { forwardAuthRoutes } from './forward-auth/routes.ts';
import { AccessControl } from './http/access.ts';
import { Certificates, loadWith } from './http/certificates.ts';
import { type Handler, type RouteName, Router } from './http/router.ts';
import { HttpServer } from './http/server.ts';
import { adminRoutes } from './http-api/admin.ts';
import { checkHandler } from './http-api/check.ts';
import { clientsByAddress } from './http-api/clients.ts';
import { fetchEndedSessions, sessionRoutes } from './http-api/session.ts';
import { TokenAttempts } from './http-api/token-attempts.ts';
import { EvictionLog } from './observe/eviction-log.ts';
import { Health, healthRoutes } from './observe/health.ts';
import { Live } from './observe/live.ts';
import { DenialLog, type Logger, StoreLog } from './observe/log.ts';
import { jointMetricsText, Metrics, type MetricsData, metricsRoutes } from './observe/metrics.ts';
import { seriesRoutes } from './observe/series.ts';
import { type TopBy, type TopData, TopKeys, topRoutes } from './observe/top-keys.ts';
import { OverridesFile } from './overrides-file.ts';
import { type Listen, listenText, type Settings } from './settings.ts';
import type { OpenStore } from './stores/index.ts';

export interface ServiceOptions {
  readonly settings: Settings;
  readonly store: OpenStore;
  readonly log: Logger;
  readonly config: Config;
  /** Reads the files again, for a reload. */
  readonly load: () => Promise<Config>;
  /** The other processes of the service. Default: none. */
  readonly group?: ProcessGroup;
}

export interface Service {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  readonly http: Listen;
  readonly grpc: Listen | undefined;
  readonly app: AppContext;
  readonly routes: readonly RouteName[];
  /** Graceful shutdown: completes requests in flight, then releases all resources. */
  close(): Promise<void>;
}

function routes(app: AppContext): Router {
  const { decisionService, settings } = app;
  const router = new Router();
  const clientOf = clientsByAddress(settings);
  const checks = (peek: boolean): Handler =>
    checkHandler(decisionService, peek, clientOf, settings.headers);
  router.add('POST', '/v1/check', 'open', checks(false));
  router.add('POST', '/v1/peek', 'open', checks(true));
  router.add('POST', '/json', 'open', jsonHandler(app));
  forwardAuthRoutes(router, app);
  adminRoutes(router, app, clientOf);
  sessionRoutes(router, app);
  healthRoutes(router, app);
  statisticsRoutes(router, app);
  dashboardRoutes(router, app.log);
  return router;
}

/** Adds the routes for metrics, top keys and history, which merge the data of all processes. */
function statisticsRoutes(router: Router, app: AppContext): void {
  const { group, metrics, topKeys, live } = app;
  group.handle('metrics', () => metrics.data());
  metricsRoutes(router, async () => {
    const all = (await group.gather('metrics')) as MetricsData[];
    return group.source === undefined ? metrics.text() : jointMetricsText(all);
  });
  group.handle('top', (detail) => topKeys.data(...(detail as [string, TopBy])));
  topRoutes(router, app, async (...detail) => (await group.gather('top', detail)) as TopData[]);
  seriesRoutes(router, app, live);
}

/** Loads the gRPC libraries only if gRPC is on. */
async function startGrpc(app: AppContext): Promise<GrpcServer | undefined> {
  const { grpc } = app.settings;
  if (grpc === undefined) return undefined;
  const { startGrpcServer } = await import('./envoy-rls/grpc-server.ts');
  return startGrpcServer(app, grpc);
}

/**
 * Probes the store when it has connected. After the server's first reply, the store checks the
 * configuration of the server and logs warnings. Because of the probe, this happens before the
 * first request arrives.
 */
async function probeStore({
  decisionService,
  store,
}: Pick<AppContext, 'decisionService' | 'store'>): Promise<void> {
  if (store.connected === undefined) return;
  await store.connected;
  await decisionService.probe();
}

export async function startService(options: ServiceOptions): Promise<Service> {
  const { settings, store, log, config, load, group = new SingleProcess() } = options;
  const decisionService = new DecisionService(store.store);
  const certificates = await Certificates.open(settings);
  const configuration = new Configuration(decisionService, config, loadWith(load, certificates));
  configuration.onReload(({ ok }) => {
    if (ok) certificates?.use();
  });
  const { overridesFile: path } = settings;
  const overridesFile =
    path === undefined ? undefined : await OverridesFile.open(path, decisionService, log);
  const health = new Health(decisionService);
  const metrics = new Metrics({ decisionService, configuration, store, health });
  const topKeys = new TopKeys();
  const watchers = { health, metrics, topKeys };
  const base = {
    settings,
    certificates,
    decisionService,
    configuration,
    store,
    log,
    group,
    overridesFile,
  };
  const live = new Live({ ...base, ...watchers });
  const attempts = new TokenAttempts(settings, decisionService, log);
  const access = new AccessControl(settings, attempts);
  const app: AppContext = { ...base, ...watchers, live, access, attempts };
  const denialLog = new DenialLog(log, settings);
  const storeLog = new StoreLog(log);
  // With several processes, the supervisor logs evictions.
  const evictionLog = options.group === undefined ? new EvictionLog(log, store.store) : undefined;
  decisionService.watch(metrics.watch, metrics.onFailure);
  decisionService.watch(topKeys.watch);
  decisionService.watch(denialLog.watch);
  decisionService.watch(storeLog.watch, storeLog.onFailure);
  group.join(decisionService, configuration);
  const router = routes(app);
  const server = new HttpServer(router, access, certificates, log, metrics);
  metrics.setTraffic(server);
  await fetchEndedSessions(app);
  const grpc = await startGrpc(app).catch(async (error) => {
    await overridesFile?.close();
    throw error;
  });
  const http = await server.listen(settings.listen, group.source).catch(async (error) => {
    await grpc?.close(0);
    await overridesFile?.close();
    throw error;
  });
  live.start();
  evictionLog?.start();
  void probeStore(app);
  const scheme = settings.tlsCert === undefined ? 'http' : 'https';
  return {
    url: `${scheme}://${listenText(http)}`,
    http,
    grpc: grpc?.listen,
    app,
    routes: router.list(),
    close: async () => {
      health.isDraining = true;
      live.close();
      const [cut] = await Promise.all([
        server.close(settings.drainMs),
        grpc?.close(settings.drainMs),
      ]);
      if (cut > 0) log.warn({ requests: cut }, 'requests cut off at shutdown');
      denialLog.flush();
      evictionLog?.stop();
      attempts.close();
      await overridesFile?.close();
      await store.store.close();
      await store.close();
    },
  };
}
