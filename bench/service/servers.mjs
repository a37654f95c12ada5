/**
 * The service with default settings, metrics and log, and the bare node:http servers that it is
 * compared with. The bare servers read the same requests but make no decisions. The bare POST
 * server writes the same body as the service. The bare GET server writes Node's default headers;
 * forward-auth omits Connection and Keep-Alive and adds RateLimit and RateLimit-Policy.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { makeLog, openStore, readSettings, startService } from 'sluice-server';

const HOST = '127.0.0.1';

/** Returns the CPU time of this process so far, in microseconds. */
function cpu() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

async function bare(listener) {
  const server = createServer(listener).listen(0, HOST);
  await once(server, 'listening');
  const { port } = server.address();
  return { port: () => port, cpu };
}

/** Returns a response body with the same fields as the service's. */
function responseFor({ policy, key, cost = 1 }) {
  const atMs = Date.now();
  const own = { allowed: true, policy, key, cost, limit: 1_000_000_000, remaining: 999_999_999 };
  const limit = { ...own, retryAfterMs: 0, resetAfterMs: 60_000, atMs };
  const receipt = { id: '0123456789abcdef1', charges: [{ policy, key, cost, atMs }] };
  return { ...limit, limits: [limit], receipt };
}

function respondJson(request, response) {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const check = JSON.parse(Buffer.concat(chunks).toString());
    const body = JSON.stringify(responseFor(check));
    const length = Buffer.byteLength(body);
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': length });
    response.end(body);
  });
}

const POLICY = { name: 'perMinute', options: { limit: 1_000_000_000, window: '1m' } };

const CONFIG = {
  ...{ files: [], overrides: [], settings: {} },
  policies: [
    { ...POLICY, shadow: false },
    { ...POLICY, name: 'edge.client', shadow: false },
  ],
  rules: [
    {
      name: 'all',
      match: { kind: 'request', path: ['/**'] },
      limits: [{ policy: 'perMinute', key: [{ sources: [{ from: 'address' }] }] }],
      goOn: false,
    },
  ],
  domains: [
    {
      domain: 'edge',
      descriptors: [
        {
          key: 'client',
          limit: { unlimited: false, policy: 'edge.client', replaces: [] },
          descriptors: [],
        },
      ],
    },
  ],
};

async function service({ grpc = false }) {
  const flags = { listen: `${HOST}:0`, logLevel: 'error', ...(grpc && { grpc: `${HOST}:0` }) };
  const { settings } = readSettings(flags, {}, {});
  const store = await openStore(settings, { onWarning() {}, onConnection() {} });
  const load = async () => CONFIG;
  const log = makeLog(settings);
  const running = await startService({ settings, store, log, config: CONFIG, load });
  return { port: () => running.http.port, grpcPort: () => running.grpc?.port, cpu };
}

export const contenders = {
  'bare POST': () => bare(respondJson),
  'bare GET': () =>
    bare((_, response) => {
      response.writeHead(200, { 'content-length': 0 });
      response.end();
    }),
  'POST /v1/check': service,
  'forward-auth': service,
  'batch of 100': service,
  gRPC: () => service({ grpc: true }),
};
