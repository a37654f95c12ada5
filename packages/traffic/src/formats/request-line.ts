/** `GET /items?page=2 HTTP/1.1`, in parts. */

export interface RequestLine {
  readonly method: string;
  readonly path: string;
  readonly search: string;
}

const NONE: RequestLine = { method: '', path: '', search: '' };

/** A target in its parts. In absolute form the scheme and host are left out. */
export function readTarget(method: string, target: string): RequestLine {
  const bare = target.startsWith('/') ? target : target.replace(/^[a-z]+:\/\/[^/?]*/i, '') || '/';
  const at = bare.indexOf('?');
  return at < 0
    ? { method, path: bare, search: '' }
    : { method, path: bare.slice(0, at), search: bare.slice(at + 1) };
}

/** What is no request, such as the bytes of a TLS handshake on a plain port, has empty parts. */
export function readRequestLine(text: string): RequestLine {
  const first = text.indexOf(' ');
  if (first <= 0) return NONE;
  const last = text.lastIndexOf(' ');
  const hasVersion = last > first && text.startsWith('HTTP/', last + 1);
  return readTarget(text.slice(0, first), text.slice(first + 1, hasVersion ? last : undefined));
}
