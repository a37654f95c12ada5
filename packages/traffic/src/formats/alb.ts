/**
 * The access log of an AWS Application Load Balancer: fields separated by spaces, some in quotes.
 *
 *     https 2026-10-10T13:55:36.1Z app/lb/1 198.51.100.7:2817 10.0.0.1:80 0.0 0.0 0.0 200 200 3 6
 *     "GET https://example.com:443/a?b HTTP/1.1" "curl/8" TLS TLSv1.2 arn "trace" "example.com" ...
 */
import type { Entry, Format } from '../entry.ts';
import { readClient } from './client.ts';
import { readTime } from './instant.ts';
import { readRequestLine } from './request-line.ts';
import { absentIfDash, owned, quoteEnd, unescaped, wholeNumber } from './text.ts';

const KINDS = new Set(['http', 'https', 'h2', 'grpcs', 'ws', 'wss']);

/** Field names in order, from the AWS documentation. */
const NAMES = [
  ...['type', 'time', 'elb', 'client:port', 'target:port', 'request_processing_time'],
  ...['target_processing_time', 'response_processing_time', 'elb_status_code'],
  ...['target_status_code', 'received_bytes', 'sent_bytes', 'request', 'user_agent'],
  ...['ssl_cipher', 'ssl_protocol', 'target_group_arn', 'trace_id', 'domain_name'],
  ...['chosen_cert_arn', 'matched_rule_priority', 'request_creation_time'],
  ...['actions_executed', 'redirect_url', 'error_reason', 'target:port_list'],
  ...['target_status_code_list', 'classification', 'classification_reason', 'conn_trace_id'],
  ...['transformed_host', 'transformed_uri', 'request_transform_status'],
];

const PLACES = new Map(NAMES.map((name, place) => [name, place]));
PLACES.set('user-agent', NAMES.indexOf('user_agent'));

/** Older logs have fewer fields, but all have a request. */
const MIN_FIELDS = NAMES.indexOf('request') + 1;
const CREATION = NAMES.indexOf('request_creation_time');

/** Splits a line into its fields. Returns undefined if a quote is not closed. */
function fieldsOf(line: string): string[] | undefined {
  const fields: string[] = [];
  for (let at = 0; at < line.length; at++) {
    const isQuoted = line[at] === '"';
    const start = isQuoted ? at + 1 : at;
    const end = isQuoted ? quoteEnd(line, start) : line.indexOf(' ', start);
    if (isQuoted && end < 0) return undefined;
    const field = line.slice(start, end < 0 ? undefined : end);
    fields.push(isQuoted ? unescaped(field) : field);
    if (end < 0) break;
    at = isQuoted ? end + 1 : end;
  }
  return fields;
}

class AlbEntry implements Entry {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  readonly host: string;
  readonly user = '';

  constructor(
    readonly timeMs: number,
    readonly client: string,
    readonly status: number,
    readonly bytes: number,
    private readonly fields: readonly string[],
  ) {
    const request = readRequestLine(this.field('request') ?? '');
    this.method = request.method;
    this.path = request.path;
    this.search = request.search;
    this.host = owned(request.host || (this.field('domain_name') ?? ''));
  }

  field(name: string): string | undefined {
    const place = PLACES.get(name);
    return place === undefined ? undefined : absentIfDash(this.fields[place] ?? '') || undefined;
  }
}

function read(line: string): Entry | undefined {
  if (!KINDS.has(line.slice(0, line.indexOf(' ')))) return undefined;
  const fields = fieldsOf(line);
  if (fields === undefined || fields.length < MIN_FIELDS) return undefined;
  const respondedMs = readTime(fields[1]);
  if (respondedMs === undefined) return undefined;
  // Prefer the arrival to the response: for a WebSocket, the two can be hours apart.
  const timeMs = readTime(fields[CREATION] ?? '') ?? respondedMs;
  // IPv6 addresses have no brackets here: the port follows the last colon.
  const from = fields[3];
  const client = /:\d+$/.test(from) ? readClient(from.slice(0, from.lastIndexOf(':'))) : '';
  const status = wholeNumber(fields[8], 0, fields[8].length);
  const bytes = wholeNumber(fields[11], 0, fields[11].length);
  if (status < 0 || status > 999 || bytes < 0 || client === '') return undefined;
  return new AlbEntry(timeMs, client, status, bytes, fields);
}

export const alb: Format = { name: 'alb', read };
