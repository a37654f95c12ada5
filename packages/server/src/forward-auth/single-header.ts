/**
 * Reads headers that must not be repeated. Applications disagree about repeated headers: some take
 * the first line, some the last, some join them. `IncomingMessage.headers` hides repetition: it
 * joins the lines, or keeps only the first.
 */
import type { IncomingMessage } from 'node:http';
import { AmbiguousRequest } from '../ambiguous-request.ts';

/** Returns the value of a header by its lower-case name; throws if it is repeated. */
export function singleHeader(incoming: IncomingMessage, name: string): string | undefined {
  const value: unknown = incoming.headers[name];
  if (value === undefined) return undefined;
  if (typeof value === 'string') {
    // Fast path: Node joins extension headers with ", ", so a value without it is one line.
    if (name.startsWith('x-') && !value.includes(', ')) return value;
    // HTTP/2 clients may send each cookie on its own line.
    if (name === 'cookie' || countLines(incoming, name) < 2) return value;
    throw repeated(name);
  }
  // A name such as `constructor` finds a member of Object.prototype.
  if (!Array.isArray(value)) return undefined;
  if (value.length > 1) throw repeated(name);
  return value[0];
}

function countLines({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at];
    if (raw.length === name.length && raw.toLowerCase() === name) count++;
  }
  return count;
}

/** Headers that often contain a comma and do not identify a client. */
const WITH_COMMAS: ReadonlySet<string> = new Set([
  ...['accept', 'accept-encoding', 'accept-language', 'cookie', 'referer', 'user-agent'],
]);

/**
 * Returns a header that a rule or key reads. Rejects a repeated header; a second header that
 * differs only in `_` and `-`, because CGI, WSGI and PHP applications read both under one name;
 * and a comma if the proxy may join repeated lines.
 */
export function ruleHeader(
  incoming: IncomingMessage,
  name: string,
  joinsLines: boolean,
): string | undefined {
  const value = singleHeader(incoming, name);
  if (HYPHEN.test(name)) rejectTwin(incoming, name);
  if (joinsLines && value?.includes(',') && !WITH_COMMAS.has(name)) throw repeated(name);
  return value;
}

const HYPHEN = /[-_]/;
const cgiName = (name: string): string => name.toLowerCase().replaceAll('-', '_');

function rejectTwin({ rawHeaders }: IncomingMessage, name: string): void {
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at];
    if (raw.length !== name.length || !HYPHEN.test(raw)) continue;
    if (raw.toLowerCase() !== name && cgiName(raw) === cgiName(name)) {
      throw new AmbiguousRequest(`Expected only \`${name}\`, got \`${raw}\``);
    }
  }
}

const repeated = (name: string): AmbiguousRequest =>
  new AmbiguousRequest(`Expected one \`${name}\` header, got several`);
