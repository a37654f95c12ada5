/** Any log that has a JSON object a line, with members that are called what they usually are. */
import type { Format } from '../entry.ts';
import { jsonFormat } from './json.ts';
import { type Names, USUAL } from './named.ts';
import { canonicalHeader } from './text.ts';

/** A header as a member of its own is mostly called as nginx calls it, `http_user_agent`. */
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
