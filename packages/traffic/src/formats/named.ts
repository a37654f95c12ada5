/** Logs that name their values, as JSON and CSV do: what names mean, and entries from that. */
import type { CostSource, Entry } from '../entry.ts';
import { readClient, readHost } from './client.ts';
import { readEpoch, readTime } from './instant.ts';
import { readRequestLine, readTarget } from './request-line.ts';
import { absentIfDash, owned } from './text.ts';

/**
 * What an entry is made of. A `path` may be a whole target or URL; `search` is for logs that have
 * the query apart, and `request` for those with `GET /a HTTP/1.1` in one. A `cost` is how much of a
 * limit the request takes.
 */
export const PARTS = [
  ...(['time', 'client', 'method', 'path', 'search', 'request'] as const),
  ...(['host', 'status', 'bytes', 'user', 'cost'] as const),
];
export type Part = (typeof PARTS)[number];

/** Which names have what; the first that is there counts. */
export type Names = Readonly<Record<Part, readonly string[]>>;

/** The names that most logs use, those of nginx, Envoy and the Elastic schema among them. */
export const USUAL: Names = {
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

/** Other names for some of the parts. */
export function named(names: Names, others: Readonly<Partial<Record<Part, string>>>): Names {
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

/** A line that says a cost which is none cannot be read. */
const NO_COST = Number.NaN;

const MAX_SAMPLE_LENGTH = 40;

/** `5.0` is what programs write that know no integers, and JSON makes no difference either. */
const INTEGER = /^\d{1,16}(?:\.0+)?$/;

/** Undefined if there is none, `NO_COST` if there is something else. */
function costOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  let cost = value;
  if (typeof value === 'string') {
    const text = absentIfDash(value.trim());
    if (text === '') return undefined;
    cost = INTEGER.test(text) ? Number(text) : NO_COST;
  }
  return Number.isSafeInteger(cost) && (cost as number) >= 1 ? (cost as number) : NO_COST;
}

const shownCost = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : String(value);

/** Reads costs, and counts what it reads: one for each log. */
export class CostField implements CostSource {
  name: string;
  read = 0;
  refused = 0;
  sample = '';

  /** The name is that of the last cost, where one log has them under several names. */
  constructor(name = '') {
    this.name = name;
  }

  /** Undefined if the line does not say, `NO_COST` if what it says is no cost. */
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
 * Undefined if there is no time or no client: without these nothing can be counted. So it is for a
 * cost that is none, as nobody can tell how much such a request counts.
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
