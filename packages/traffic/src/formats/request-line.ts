/** Parses request lines such as `GET /items?page=2 HTTP/1.1`. */
import { readHost } from './client.ts';

export interface RequestLine {
  readonly method: string;
  readonly path: string;
  readonly search: string;
  /** The host if the target is a URL, such as `http://host/path`; otherwise empty. */
  readonly host: string;
}

const NONE: RequestLine = { method: '', path: '', search: '', host: '' };

const ABSOLUTE = /^[a-z][a-z\d+.-]*:\/\/(?:[^/?#@]*@)?([^/?#]*)/i;

/** Parses the target of a request: a path or a URL. */
export function readTarget(method: string, target: string): RequestLine {
  if (target.startsWith('/')) return splitTarget(method, target, '');
  const [origin = '', authority = ''] = ABSOLUTE.exec(target) ?? [];
  const rest = target.slice(origin.length);
  const path = rest === '' || rest.startsWith('?') ? `/${rest}` : rest;
  return splitTarget(method, path, readHost(authority));
}

function splitTarget(method: string, target: string, host: string): RequestLine {
  const at = target.indexOf('?');
  return at < 0
    ? { method, path: target, search: '', host }
    : { method, path: target.slice(0, at), search: target.slice(at + 1), host };
}

/** Parses a request line. Returns empty parts for other text, such as a TLS handshake. */
export function readRequestLine(text: string): RequestLine {
  const first = text.indexOf(' ');
  if (!isMethod(text, first)) return NONE;
  const last = text.lastIndexOf(' ');
  const hasVersion = last > first && text.startsWith('HTTP/', last + 1);
  const target = text.slice(first + 1, hasVersion ? last : undefined);
  // Requests of HTTP/0.9 have a path but no version. Text of other protocols has neither.
  if (!hasVersion && !target.startsWith('/')) return NONE;
  return readTarget(text.slice(0, first), target);
}

/**
 * Returns true if the text before `end` may be a method: letters, dashes and underscores, and a
 * letter first.
 */
function isMethod(text: string, end: number): boolean {
  for (let at = 0; at < end; at++) {
    const code = text.charCodeAt(at);
    const isLetter = (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
    if (!isLetter && (at === 0 || (code !== 45 && code !== 95))) return false;
  }
  return end > 0;
}
