/**
 * The access log of Caddy 2, in JSON. The same file may contain other messages. Error messages
 * contain a request that the log has already, so they are skipped.
 */
import { isObject, jsonFormat } from './json.ts';
import { canonicalHeader } from './text.ts';

export const caddy = jsonFormat({
  name: 'caddy',
  names: {
    time: ['ts'],
    client: ['request.client_ip', 'request.remote_ip', 'request.remote_addr'],
    method: ['request.method'],
    path: ['request.uri'],
    search: [],
    request: [],
    host: ['request.host'],
    status: ['status'],
    bytes: ['size'],
    user: ['user_id'],
    cost: [],
  },
  isEntry: ({ request, logger }) =>
    isObject(request) && !(typeof logger === 'string' && logger.startsWith('http.log.error')),
  headerNames: (name) => [`request.headers.${canonicalHeader(name)}`],
});
