/**
 * The HTTP log of HAProxy (`option httplog`). Its times have no zone and are read as UTC:
 *
 *     198.51.100.7:33317 [10/Oct/2026:13:55:36.655] front back/web1 10/0/30/69/109 200 2750
 *     - - ---- 1/1/1/1/0 0/0 {example.com|curl} {} "GET /a?b HTTP/1.1"
 */
import type { Entry, Format } from '../entry.ts';
import { readClient } from './client.ts';
import { readTime } from './instant.ts';
import { readRequestLine } from './request-line.ts';
import { owned, unescaped, wholeNumber } from './text.ts';

const LINE = new RegExp(
  [
    String.raw`^(\S+):\d+ \[([^\]]+)\] (\S+) (\S+) [-+\d/]+`,
    String.raw` (-1|\d{3}) \+?(\d+) \S+ \S+ \S{4} [+\d/]+ [+\d/]+`,
    String.raw`(?: \{([^}]*)\})?(?: \{[^}]*\})? "((?:[^"\\]|\\.)*)"`,
  ].join(''),
);

function read(line: string): Entry | undefined {
  const parts = LINE.exec(line);
  if (parts === null) return undefined;
  const [, from, time, frontend, backend, code, size, captured, request] = parts;
  const timeMs = readTime(time);
  const client = readClient(from);
  if (timeMs === undefined || client === '') return undefined;
  const { method, path, search, host } = readRequestLine(unescaped(request));
  return {
    ...{ timeMs, client, method, path, search, host, user: '' },
    status: Math.max(0, Number(code)),
    bytes: Math.max(0, wholeNumber(size, 0, size.length)),
    field: (name) => fieldOf(name, frontend, backend, captured),
  };
}

/**
 * Returns a field. The log has no names for captured headers, so the field `captured` has all of
 * them.
 */
function fieldOf(
  name: string,
  frontend: string,
  backend: string,
  captured: string | undefined,
): string | undefined {
  if (name === 'frontend') return owned(frontend);
  if (name === 'backend') return owned(backend);
  return name === 'captured' && captured ? owned(captured) : undefined;
}

export const haproxy: Format = { name: 'haproxy', read };
