/** Logs with one JSON object per line and common member names. */
import type { Format } from '../entry.ts';
import { jsonFormat } from './json.ts';
import { COMMON_NAMES, type Names } from './named.ts';
import { canonicalHeader } from './text.ts';

/**
 * Returns the possible names of the member with a request header: `http_user_agent` as in nginx,
 * `user_agent`, or a path such as `request.headers.User-Agent`.
 */
function headerNames(name: string): readonly string[] {
  const plain = name.replaceAll('-', '_');
  const places = ['headers', 'request_headers', 'request.headers', 'req.headers'];
  const nested = places.flatMap((place) => [
    `${place}.${name}`,
    `${place}.${canonicalHeader(name)}`,
  ]);
  return [`http_${plain}`, plain, ...nested];
}

export const jsonLines = (names: Names = COMMON_NAMES): Format =>
  jsonFormat({ name: 'json-lines', names, isEntry: () => true, headerNames });
