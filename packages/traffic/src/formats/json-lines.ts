/** Logs with one JSON object per line and common member names. */
import type { Format } from '../entry.ts';
import { jsonFormat } from './json.ts';
import { type Names, USUAL } from './named.ts';
import { canonicalHeader } from './text.ts';

/** Returns the possible members of a header: nginx's `http_user_agent`, or nested in an object. */
function headerNames(name: string): readonly string[] {
  const plain = name.replaceAll('-', '_');
  const places = ['headers', 'request_headers', 'request.headers', 'req.headers'];
  const nested = places.flatMap((place) => [
    `${place}.${name}`,
    `${place}.${canonicalHeader(name)}`,
  ]);
  return [`http_${plain}`, plain, ...nested];
}

export const jsonLines = (names: Names = USUAL): Format =>
  jsonFormat({ name: 'json-lines', names, isEntry: () => true, headerNames });
