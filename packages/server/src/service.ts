/** The service: a desk over a store, a configuration, and the protocols that ask them. */
import type { Config } from './config/model.ts';
import { Configuration } from './configuration.ts';
import { Desk } from './desk.ts';
import { Router } from './http/router.ts';
import { HttpServer } from './http/server.ts';
import { adminRoutes } from './http-api/admin.ts';
import { checkHandler } from './http-api/check.ts';
import type { Logger } from './log.ts';
import type { Parts } from './parts.ts';
import { type Listen, listenText, type Settings } from './settings.ts';
import type { OpenStore } from './store-url.ts';

export interface ServiceOptions {
  readonly settings: Settings;
  readonly store: OpenStore;
  readonly log: Logger;
  readonly config: Config;
  /** Reads the files again, for a reload. */
  readonly load: () => Promise<Config>;
}

export interface Service {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  readonly http: Listen;
  readonly grpc: Listen | undefined;
  readonly parts: Parts;
  /** Answers what is in flight, then lets everything go. */
  close(): Promise<void>;
}

function routes(parts: Parts): Router {
  const { desk } = parts;
  const router = new Router();
  router.add('POST', '/v1/check', 'open', checkHandler(desk, false));
  router.add('POST', '/v1/peek', 'open', checkHandler(desk, true));
  adminRoutes(router, parts);
  return router;
}

export async function startService(options: ServiceOptions): Promise<Service> {
  const { settings, store, log, config, load } = options;
  const desk = new Desk(store.store);
  const configuration = new Configuration(desk, config, load);
  const parts: Parts = { settings, desk, configuration, store, log };
  const server = new HttpServer(routes(parts), settings, log);
  const http = await server.listen(settings.listen);
  const scheme = settings.tlsCert === undefined ? 'http' : 'https';
  return {
    url: `${scheme}://${listenText(http)}`,
    http,
    grpc: undefined,
    parts,
    close: async () => {
      await server.close(settings.drainMs);
      await store.store.close();
      await store.close();
    },
  };
}
