/** Builds entries from logs with named values, such as JSON and CSV. */
import type { CostSource, Entry } from '../entry.ts';
import { readClient, readHost } from './client.ts';
import { readEpoch, readTime } from './instant.ts';
import { readRequestLine, readTarget } from './request-line.ts';
import { absentIfDash, owned } from './text.ts';

/**
 * The fields of a log line that become an entry. `path` may be a path, a path with a query or a
 * URL. `search` is the query, if the log has it in a separate field. `request` is a request line
 * such as `GET /a HTTP/1.1`.
 */
export const PARTS = [
  ...(['time', 'client', 'method', 'path', 'search', 'request'] as const),
  ...(['host', 'status', 'bytes', 'user', 'cost'] as const),
];
export type Part = (typeof PARTS)[number];

/** Possible names of each field in a log. The first name that occurs in a line is used. */
export type Names = Readonly<Record<Part, readonly string[]>>;

/** Common names, including those of nginx, Envoy and the Elastic Common Schema. */
export const COMMON_NAMES: Names = {
  time: [
    ...['time', 'timestamp', '@timestamp', 'ts', 'msec', 'time_iso8601', 'time_local'],
    ...['start_time', 'datetime', 'date'],
  ],
  client: [
    ...['client', 'client_ip', 'clientIp', 'remote_addr', 'remote_ip', 'ip', 'client.ip'],
    ...['source.ip', 'downstream_remote_address', 'remoteAddress', 'address', 'key'],
  ],
  method: ['method', 'request_method', 'http_method', 'http.request.method', 'verb'],
  path: ['path', 'request_uri', 'uri', 'url', 'target', 'url.original', 'url.path'],
  search: ['query', 'query_string', 'args', 'url.query'],
  request: ['request', 'request_line'],
  host: ['host', 'http_host', 'authority', 'server_name', 'domain', 'url.domain'],
  status: [
    ...['status', 'status_code', 'statusCode', 'response_code', 'response_status', 'code'],
    'http.response.status_code',
  ],
  bytes: [
    ...['bytes', 'size', 'body_bytes_sent', 'bytes_sent', 'response_size'],
    'http.response.body.bytes',
  ],
  user: ['user', 'remote_user', 'user_id', 'username', 'user.name'],
  cost: ['cost', 'request_cost', 'requestCost'],
};

/** Returns `names`, with the fields of `others` replaced. */
export function withNames(names: Names, others: Readonly<Partial<Record<Part, string>>>): Names {
  const given = Object.entries(others).map(([part, name]) => [part, [name]]);
  return { ...names, ...Object.fromEntries(given) };
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return absentIfDash(value);
  return typeof value === 'number' ? String(value) : '';
}

function timeOf(value: unknown): number | undefined {
  if (typeof value === 'number') return readEpoch(value);
  return typeof value === 'string' ? readTime(value.replace(/^\[|\]$/g, '')) : undefined;
}

function numberOf(value: unknown, most: number): number {
  const number = typeof value === 'string' ? Number(value || Number.NaN) : value;
  return typeof number === 'number' && number > 0 && number <= most ? Math.floor(number) : 0;
}

/** Stands for an invalid cost, which makes the line unreadable. */
const INVALID_COST = Number.NaN;

const MAX_SAMPLE_LENGTH = 40;

/** Also matches `5.0`: some programs write integers as decimals. */
const INTEGER = /^\d{1,16}(?:\.0+)?$/;

/**
 * Returns the cost, undefined if there is none, or `INVALID_COST` if it is not a positive integer.
 */
function costOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  let cost = value;
  if (typeof value === 'string') {
    const text = absentIfDash(value.trim());
    if (text === '') return undefined;
    cost = INTEGER.test(text) ? Number(text) : INVALID_COST;
  }
  return Number.isSafeInteger(cost) && (cost as number) >= 1 ? (cost as number) : INVALID_COST;
}

const shownCost = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value);

/** Parses and counts the costs of one log. */
export class CostField implements CostSource {
  name: string;
  read = 0;
  refused = 0;
  sample = '';

  constructor(name = '') {
    this.name = name;
  }

  /**
   * Returns and counts the cost of a line. Returns undefined if the line has no cost, or
   * `INVALID_COST` if it is not a positive integer.
   */
  of(value: unknown): number | undefined {
    const cost = costOf(value);
    if (cost === undefined) return undefined;
    if (cost >= 1) this.read++;
    else {
      if (this.refused === 0) this.sample = owned(shownCost(value).slice(0, MAX_SAMPLE_LENGTH));
      this.refused++;
    }
    return cost;
  }
}

/**
 * Builds an entry from the fields that `partOf` returns. Returns undefined if there is no time or
 * no client, or if the cost is invalid.
 */
export function namedEntry(
  partOf: (part: Part) => unknown,
  field: Entry['field'],
  costs: CostField | undefined,
): Entry | undefined {
  const timeMs = timeOf(partOf('time'));
  if (timeMs === undefined) return undefined;
  const client = readClient(textOf(partOf('client')));
  if (client === '') return undefined;
  const cost = costs?.of(partOf('cost'));
  if (Number.isNaN(cost)) return undefined;
  const target = textOf(partOf('path'));
  const { method, path, search, host } =
    target === ''
      ? readRequestLine(textOf(partOf('request')))
      : readTarget(textOf(partOf('method')), target);
  return {
    timeMs,
    client,
    method,
    path,
    search: search || textOf(partOf('search')).replace(/^\?/, ''),
    host: owned(readHost(textOf(partOf('host'))) || host),
    status: numberOf(partOf('status'), 999),
    bytes: numberOf(partOf('bytes'), Number.MAX_SAFE_INTEGER),
    user: owned(textOf(partOf('user'))),
    cost,
    costSource: costs,
    field,
  };
}
