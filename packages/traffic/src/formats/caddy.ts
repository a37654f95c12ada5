/**
 * The access log of Caddy 2. Other messages may be in the same file; error messages repeat the
 * request, which must not count twice.
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
