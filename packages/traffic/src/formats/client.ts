/**
 * Parses client addresses and hosts. A client address may have a port or brackets, or be the first
 * of a list.
 */
import { absentIfDash, owned } from './text.ts';

const isPlain = (code: number): boolean =>
  (code >= 48 && code <= 57) || // a digit
  code === 46 ||
  (code >= 97 && code <= 122) ||
  (code >= 65 && code <= 90) ||
  code === 45 ||
  code === 95;

const COLON = 58;

/** Returns the first address without port and brackets, or an empty text if there is none. */
export function readClient(text: string): string {
  let colons = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === COLON) colons++;
    else if (!isPlain(code)) return readUnusualClient(text);
  }
  // A single colon is before a port. An IPv6 address has several.
  if (colons === 1) return readUnusualClient(text);
  return text === '-' ? '' : owned(text);
}

const FIRST_OF_LIST = /^\s*([\da-f.:[\]]+)\s*,/i;
const BRACKETED = /^\[([^\][\s]+)\](?::\d+)?$/;
const WITH_PORT = /^([^:]+):\d+$/;
const CONTROL = /\p{Cc}/u;

function readUnusualClient(text: string): string {
  const first = (FIRST_OF_LIST.exec(text)?.[1] ?? text).trim();
  const client = BRACKETED.exec(first)?.[1] ?? WITH_PORT.exec(first)?.[1] ?? first;
  return client === '-' || CONTROL.test(client) ? '' : owned(client);
}

/** Returns a host without its port. */
export function readHost(text: string): string {
  return absentIfDash(text.includes(':') ? text.replace(/:\d*$/, '') : text);
}
