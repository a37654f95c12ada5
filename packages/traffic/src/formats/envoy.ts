/**
 * The default text log of Envoy, and the text log of Istio, which has more fields. The client is
 * the first address of `X-Forwarded-For`, or else the downstream address, which only Istio logs.
 *
 *     [2026-10-10T13:55:36.310Z] "POST /a HTTP/2" 204 - 154 0 226 100 "198.51.100.7" "curl/8"
 *     "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.com" "tcp://10.0.2.1:80"
 */
import type { Entry, Format } from '../entry.ts';
import { readClient, readHost } from './client.ts';
import { readTime } from './instant.ts';
import { readRequestLine } from './request-line.ts';
import { absentIfDash, owned, unescaped, wholeNumber } from './text.ts';

const START = /^\[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{1,3}) \S+/;
const QUOTED = String.raw`"((?:[^"\\]|\\.)*)"`;
/** Bytes received and sent, duration, upstream time, then the headers and the upstream host. */
const REST = new RegExp(
  String.raw` \d+ (\d+) (?:\d+|-) (?:\d+|-) ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED} ${QUOTED}` +
    String.raw`(?: \S+ \S+ \S+ (\S+))?`,
);
const NAMES = ['x-forwarded-for', 'user-agent', 'x-request-id', 'host'];

function read(line: string): Entry | undefined {
  const start = START.exec(line);
  if (start === null) return undefined;
  const rest = REST.exec(line.slice(start[0].length));
  const timeMs = readTime(start[1]);
  if (rest === null || timeMs === undefined) return undefined;
  const [, sent, forwarded, , , authority, , downstream = ''] = rest;
  const client = readClient(absentIfDash(unescaped(forwarded)) || downstream);
  if (client === '') return undefined;
  const { method, path, search, host } = readRequestLine(unescaped(start[2]));
  return {
    ...{ timeMs, client, method, path, search, user: '' },
    host: owned(readHost(unescaped(authority)) || host),
    status: Number(start[3]),
    bytes: Math.max(0, wholeNumber(sent, 0, sent.length)),
    field: (name) => {
      const place = NAMES.indexOf(name);
      return place < 0 ? undefined : absentIfDash(unescaped(rest[place + 2])) || undefined;
    },
  };
}

export const envoy: Format = { name: 'envoy', read };
