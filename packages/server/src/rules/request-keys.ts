/** Whom a limit counts: the parts of a key, read from a request. */
import { createHash } from 'node:crypto';
import { joinKey } from 'sluice';
import { LONGEST_KEY } from 'sluice/engine';
import type { KeyPart, KeySource } from '../config/model.ts';
import type { RequestFacts } from './request-facts.ts';

/** Of a request whose method, path and host have the form in which they are counted. */
type Reader = (facts: RequestFacts) => string | undefined;

/** A key of one part that needs no escaping is that part itself. */
export type KeyReader = (facts: RequestFacts) => string | readonly string[];

/**
 * Reads all parts of a key. A part that nothing is found for is empty. One empty part alone would
 * be no key at all, so then there are two, which no other key of one part can be.
 */
export function keyReader(parts: readonly KeyPart[]): KeyReader {
  const readers = parts.map(({ sources }) => partReader(sources));
  if (readers.length === 1) {
    const [read] = readers;
    return (facts) => {
      const part = read(facts);
      if (part === '') return NOBODY;
      if (part.length > SURELY_SHORT) return shortened([part]);
      return part.includes(':') || part.includes('\\') ? [part] : part;
    };
  }
  if (readers.length === 0) return () => NOBODY;
  return (facts) => {
    const key: string[] = [];
    let length = 0;
    for (const read of readers) {
      const part = read(facts);
      length += part.length + 1;
      key.push(part);
    }
    return length <= SURELY_SHORT ? key : shortened(key);
  };
}

export const NOBODY: readonly string[] = ['', ''];

/** Escaping at most doubles a part. */
const SURELY_SHORT = LONGEST_KEY / 2;

function partReader(sources: readonly KeySource[]): (facts: RequestFacts) => string {
  const readers = sources.map(readerOf);
  if (readers.length === 1) {
    const [read] = readers;
    return (facts) => read(facts) ?? '';
  }
  const hasAddress = sources.some(({ from }) => from === 'address');
  return (facts) => {
    for (const [place, read] of readers.entries()) {
      const found = read(facts);
      if (found === undefined || found === '') continue;
      const { from } = sources[place];
      const isPretence = hasAddress && from !== 'address' && ADDRESS_LIKE.test(found);
      return isPretence ? `${from}=${found}` : found;
    }
    return '';
  };
}

/**
 * What a client writes in a place where others have their address must not be one of those, or it
 * could spend what they have.
 */
const ADDRESS_LIKE = /^[\da-f]*[:.][\da-f:.]*(?:\/\d+)?$/i;

function readerOf(source: KeySource): Reader {
  switch (source.from) {
    case 'address':
      return (facts) => facts.address();
    case 'method':
      return (facts) => facts.method;
    case 'path':
      return (facts) => facts.path;
    case 'host':
      return (facts) => facts.host;
    case 'text':
      return () => source.text;
    case 'header': {
      const name = source.name.toLowerCase();
      return (facts) => facts.header(name);
    }
    case 'cookie':
      return (facts) => cookieIn(facts.header('cookie'), source.name);
    case 'query':
      return (facts) => queryIn(facts.search, source.name);
    case 'descriptor':
      // Requests have no descriptors.
      return () => undefined;
  }
}

/** The first cookie of a name, as it came: decoding could fail, and tells nobody apart. */
function cookieIn(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  for (const pair of header.split(';')) {
    const at = pair.indexOf('=');
    if (at < 0 || pair.slice(0, at).trim() !== name) continue;
    const value = pair.slice(at + 1).trim();
    return /^".*"$/.test(value) ? value.slice(1, -1) : value;
  }
  return undefined;
}

function queryIn(search: string, name: string): string | undefined {
  if (search === '') return undefined;
  return new URLSearchParams(search).get(name) ?? undefined;
}

/**
 * Callers choose how long their headers are, and too long a key would be an error. So then every
 * part that is longer than a hash is replaced by one; if that is not enough, all parts are.
 */
export function shortened(parts: readonly string[]): readonly string[] {
  if (isShort(parts)) return parts;
  const hashed = parts.map((part) => (part.length > HASH_LENGTH ? hashOf(part) : part));
  return isShort(hashed) ? hashed : [hashOf(joinKey(...parts))];
}

const isShort = (parts: readonly string[]): boolean => joinKey(...parts).length <= LONGEST_KEY;

/** SHA-256 in base64url: 43 characters, none of which needs escaping in a key. */
const HASH_LENGTH = 43;
const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url');
