/** Logs that are a JSON object a line: those of Caddy and Traefik, and any other with named members. */
import type { Entry, Format } from '../entry.ts';
import { readTime } from './instant.ts';
import { readRequestLine, readTarget } from './request-line.ts';

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A member by its path, such as `request.remote_ip`; a name with dots in it goes before a path. */
function member(json: Json, path: string): unknown {
  if (Object.hasOwn(json, path)) return json[path];
  let value: unknown = json;
  for (const name of path.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

const text = (value: unknown): string => {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : '';
};

const count = (value: unknown): number => {
  const number = Number(value);
  return Number.isFinite(number) && number > 0 ? Math.floor(number) : 0;
};

function parse(line: string): Json | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Which member has what; the first that is there counts. */
export interface Members {
  readonly time: readonly string[];
  readonly client: readonly string[];
  readonly method: readonly string[];
  /** A path, or a whole target with its query. */
  readonly path: readonly string[];
  /** `GET /a HTTP/1.1`, where there is no method and path of its own. */
  readonly request: readonly string[];
  readonly host: readonly string[];
  readonly status: readonly string[];
  readonly bytes: readonly string[];
  readonly user: readonly string[];
}

/** A header's values are a list in Caddy's log; the first one is told. */
function fieldOf(json: Json, name: string): string | undefined {
  const value = member(json, name);
  const first = Array.isArray(value) ? value[0] : value;
  if (typeof first === 'string') return first;
  return typeof first === 'number' || typeof first === 'boolean' ? String(first) : undefined;
}

export function entryOf(json: Json, members: Members): Entry | undefined {
  const find = (names: readonly string[]): unknown => {
    for (const name of names) {
      const value = member(json, name);
      if (value !== undefined && value !== null && value !== '') return value;
    }
    return undefined;
  };
  const timeMs = readTime(find(members.time));
  const client = text(find(members.client));
  if (timeMs === undefined || client === '') return undefined;
  const target = text(find(members.path));
  const parts =
    target === ''
      ? readRequestLine(text(find(members.request)))
      : readTarget(text(find(members.method)), target);
  return {
    ...{ timeMs, client: withoutPort(client), ...parts },
    host: text(find(members.host)),
    status: count(find(members.status)),
    bytes: count(find(members.bytes)),
    user: text(find(members.user)),
    field: (name) => fieldOf(json, name),
  };
}

/** `198.51.100.7:51234` and `[2001:db8::1]:51234`, as some servers write a client. */
export function withoutPort(client: string): string {
  const [, v6] = /^\[([^\]]+)\](?::\d+)?$/.exec(client) ?? [];
  return v6 ?? client.replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1');
}

const CADDY: Members = {
  time: ['ts'],
  client: ['request.client_ip', 'request.remote_ip', 'request.remote_addr'],
  method: ['request.method'],
  path: ['request.uri'],
  request: [],
  host: ['request.host'],
  status: ['status'],
  bytes: ['size'],
  user: ['user_id'],
};

const TRAEFIK: Members = {
  time: ['StartUTC', 'time', 'StartLocal'],
  client: ['ClientHost', 'ClientAddr'],
  method: ['RequestMethod'],
  path: ['RequestPath'],
  request: [],
  host: ['RequestHost', 'RequestAddr'],
  status: ['DownstreamStatus', 'OriginStatus'],
  bytes: ['DownstreamContentSize'],
  user: ['ClientUsername'],
};

/** The names that most logs use for these; `--time`, `--client` and so on name others. */
export const USUAL: Members = {
  time: ['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'msec', 'date', 'datetime'],
  client: ['client', 'client_ip', 'remote_addr', 'remote_ip', 'ip', 'clientIp', 'address', 'key'],
  method: ['method', 'request_method', 'http_method', 'verb'],
  path: ['path', 'uri', 'url', 'request_uri', 'target'],
  request: ['request', 'request_line'],
  host: ['host', 'http_host', 'server_name', 'domain'],
  status: ['status', 'status_code', 'code', 'response_status'],
  bytes: ['bytes', 'size', 'body_bytes_sent', 'bytes_sent', 'response_size'],
  user: ['user', 'remote_user', 'user_id', 'username'],
};

function format(name: string, members: Members, isOurs: (json: Json) => boolean): Format {
  return {
    name,
    read(line) {
      const json = parse(line);
      return json === undefined || !isOurs(json) ? undefined : entryOf(json, members);
    },
  };
}

export const caddy = format('caddy', CADDY, (json) => isObject(json.request));
export const traefik = format('traefik', TRAEFIK, (json) => 'RequestMethod' in json);

export const jsonLines = (members: Members = USUAL): Format =>
  format('json-lines', members, () => true);
