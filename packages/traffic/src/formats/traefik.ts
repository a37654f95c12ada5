/** The JSON access log of Traefik. The format `combined` reads its common log format. */
import { jsonFormat } from './json.ts';
import { canonicalHeader } from './text.ts';

export const traefik = jsonFormat({
  name: 'traefik',
  names: {
    time: ['StartUTC', 'StartLocal', 'time'],
    client: ['ClientHost', 'ClientAddr'],
    method: ['RequestMethod'],
    path: ['RequestPath'],
    search: [],
    request: [],
    host: ['RequestHost', 'RequestAddr'],
    status: ['DownstreamStatus', 'OriginStatus'],
    bytes: ['DownstreamContentSize', 'OriginContentSize'],
    user: ['ClientUsername'],
    cost: [],
  },
  isEntry: (json) => 'RequestMethod' in json || 'ClientHost' in json,
  headerNames: (name) => [`request_${canonicalHeader(name)}`],
});
