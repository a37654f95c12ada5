import { createServer, type IncomingMessage } from 'node:http';
import { decisionOf, type NodeOptions, rateLimit } from 'sluice/node';

const options: NodeOptions = { limit: 100, window: '1m', key: (request) => request.url };
const key = (request: IncomingMessage) => request.headers['x-user']?.toString();
createServer(
  rateLimit(options)((request, response) => {
    response.end(String(decisionOf(request)?.remaining));
  }),
);
createServer(
  rateLimit({ limit: 1, key, onError: (_error, _request, response) => response.end() })(
    async (_request, response) => void response.end('hello'),
  ),
);
