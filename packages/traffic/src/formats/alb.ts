/**
 * The access log of an AWS Application Load Balancer: fields with spaces between, some in quotes.
 *
 *     https 2026-10-10T13:55:36.1Z app/lb/1 198.51.100.7:2817 10.0.0.1:80 0.0 0.0 0.0 200 200 34 366
 *     "GET https://example.com:443/a?b HTTP/1.1" "curl/8" TLS TLSv1.2 arn "trace" "example.com" ...
 */
import type { Entry, Format } from '../entry.ts';
import { readIsoTime } from './instant.ts';
import { withoutPort } from './json.ts';
import { readRequestLine } from './request-line.ts';

const KINDS = new Set(['http', 'https', 'h2', 'grpcs', 'ws', 'wss']);

/** The names of the fields, in their order, as its documentation has them. */
const NAMES = [
  ...['type', 'time', 'elb', 'client:port', 'target:port', 'request_processing_time'],
  ...['target_processing_time', 'response_processing_time', 'elb_status_code'],
  ...['target_status_code', 'received_bytes', 'sent_bytes', 'request', 'user_agent'],
  ...['ssl_cipher', 'ssl_protocol', 'target_group_arn', 'trace_id', 'domain_name'],
  ...['chosen_cert_arn', 'matched_rule_priority', 'request_creation_time'],
  ...['actions_executed', 'redirect_url', 'error_reason'],
];

const FIELD = /"((?:[^"\\]|\\.)*)"|(\S+)/g;
const LEAST_FIELDS = 13;

function read(line: string): Entry | undefined {
  if (!KINDS.has(line.slice(0, line.indexOf(' ')))) return undefined;
  const fields = [...line.matchAll(FIELD)].map(([, quoted, plain]) => quoted ?? plain);
  if (fields.length < LEAST_FIELDS) return undefined;
  const timeMs = readIsoTime(fields[1]);
  const status = Number(fields[8]);
  const client = withoutPort(fields[3]);
  if (timeMs === undefined || client === '-' || !/^\d{3}$|^-$/.test(fields[8])) return undefined;
  const request = fields[12];
  const [, host = ''] = /^\S+ [a-z]+:\/\/([^/:?]+)/i.exec(request) ?? [];
  return {
    ...{ timeMs, client, ...readRequestLine(request), host },
    status: Number.isNaN(status) ? 0 : status,
    bytes: Number(fields[11]) || 0,
    user: '',
    field: (name) => {
      const value = fields[NAMES.indexOf(name)];
      return value === '-' ? undefined : value;
    },
  };
}

export const alb: Format = { name: 'alb', read };
