/** Load generator for the Envoy rate limit service (gRPC), with several calls per connection. */
import { credentials, makeGenericClientConstructor } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const PATH = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
const CONNECTIONS = 4;
const OVER_LIMIT = 2;

const PROTO = new URL('rate-limit.proto', import.meta.url);

function clientClass() {
  const definition = loadSync(PROTO.pathname, { keepCase: true });
  const { ShouldRateLimit } = definition['envoy.service.ratelimit.v3.RateLimitService'];
  return makeGenericClientConstructor(
    { shouldRateLimit: { ...ShouldRateLimit, path: PATH } },
    'Envoy',
  );
}

export const contenders = {
  load() {
    const Client = clientClass();
    return {
      /** Returns the time and the CPU time of this process per call, in nanoseconds. */
      async run(port, { inFlight, keys }, calls) {
        // gRPC channels with the same options share a connection, so each client gets a unique one.
        const clients = Array.from(
          { length: CONNECTIONS },
          (_, place) =>
            new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { place: String(place) }),
        );
        const call = (client, turn) =>
          new Promise((resolve, reject) => {
            const entries = [{ key: 'client', value: `user:${turn % keys}` }];
            const request = { domain: 'edge', descriptors: [{ entries }], hits_addend: 1 };
            client.shouldRateLimit(request, (error, response) => {
              if (error) reject(error);
              else if (response.overall_code === OVER_LIMIT) reject(new Error('denied'));
              else resolve();
            });
          });
        let left = calls;
        const lane = async (client) => {
          for (let turn = --left; turn >= 0; turn = --left) await call(client, turn);
        };
        const before = process.cpuUsage();
        const start = process.hrtime.bigint();
        const lanes = Array.from({ length: inFlight }, (_, place) =>
          lane(clients[place % clients.length]),
        );
        await Promise.all(lanes);
        const elapsed = Number(process.hrtime.bigint() - start);
        const { user, system } = process.cpuUsage(before);
        for (const client of clients) client.close();
        return { time: elapsed / calls, load: (1e3 * (user + system)) / calls };
      },
    };
  },
};
