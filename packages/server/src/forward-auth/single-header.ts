/**
 * Reads headers that must not be repeated. Applications read repeated headers differently: they
 * take the first line, take the last line, or join all lines. `IncomingMessage.headers` does not
 * show a repetition, because it joins the lines or keeps only the first.
 */
import type { IncomingMessage } from 'node:http';
import { AmbiguousRequest } from '../ambiguous-request.ts';

/** Returns the value of a header by its lower-case name. Throws if the header is repeated. */
export function singleHeader(incoming: IncomingMessage, name: string): string | undefined {
  const value: unknown = incoming.headers[name];
  if (value === undefined) return undefined;
  if (typeof value === 'string') {
    // Fast path: Node joins repeated `x-` headers with ", ", so a value without ", " is one line.
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

/** Headers in which a comma is usual and does not mean that lines were joined. */
const WITH_COMMAS: ReadonlySet<string> = new Set([
  ...['accept', 'accept-encoding', 'accept-language', 'cookie', 'referer', 'user-agent'],
]);

/**
 * Returns the value of a header that a rule or key reads. Throws an `AmbiguousRequest` if:
 *
 * - the header is repeated,
 * - another header differs from it only in `_` and `-`, because CGI, WSGI and PHP applications read
 *   both under one name,
 * - the value has a comma and the proxy may join repeated lines (`joinsLines`).
 */
export function ruleHeader(
  incoming: IncomingMessage,
  name: string,
  joinsLines: boolean,
): string | undefined {
  const value = singleHeader(incoming, name);
  if (HYPHEN.test(name)) rejectSimilarName(incoming, name);
  if (joinsLines && value?.includes(',') && !WITH_COMMAS.has(name)) throw repeated(name);
  return value;
}

const HYPHEN = /[-_]/;
const cgiName = (name: string): string => name.toLowerCase().replaceAll('-', '_');

function rejectSimilarName({ rawHeaders }: IncomingMessage, name: string): void {
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
