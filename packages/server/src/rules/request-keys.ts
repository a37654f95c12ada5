/**
 * Builds the keys of requests. Each part of a key begins with its source, so that equal values of
 * different sources have different keys: `address:192.0.2.1`, `header:x-user:ada`,
 * `query:api_key:k1`.
 */
import { createHash } from 'node:crypto';
import { joinKey } from 'sluice';
import { MAX_KEY_LENGTH } from 'sluice/engine';
import type { KeyPart, KeySource } from '../config/model.ts';
import type { RequestAttributes } from './request-attributes.ts';
import { cookieValue, headerValue, queryValue } from './request-values.ts';

/** Reads a value of a normalized request. */
type Reader = (attributes: RequestAttributes) => string | undefined;

/** Returns the key of a request: a string if nothing needs escaping, otherwise the parts. */
export type KeyReader = (attributes: RequestAttributes) => string | readonly string[];

/**
 * Returns a function that builds the key of a request. For each part, the first source with a value
 * is used. If no source has a value, the part is the last source with an empty value, so all such
 * requests share a key.
 */
export function keyReader(parts: readonly KeyPart[]): KeyReader {
  const readers = parts.map(({ sources }) => sources.map(sourceReader));
  if (readers.length === 1) return singleReader(readers[0]);
  if (readers.length === 0) return () => ANONYMOUS_KEY;
  return (attributes) => {
    const key: string[] = [];
    for (const sources of readers) {
      const { names, value } = firstFound(sources, attributes);
      for (const name of names) key.push(name);
      key.push(value);
    }
    let length = 0;
    for (const part of key) length += part.length + 1;
    return length <= SURELY_SHORT ? key : shortenKey(key);
  };
}

interface SourceReader {
  /** The names with which the part begins: `['header', 'x-user']`. */
  readonly names: readonly string[];
  /** The same as text: `header:x-user:`. */
  readonly start: string;
  readonly read: Reader;
}

interface FoundPart extends SourceReader {
  readonly value: string;
}

function firstFound(sources: readonly SourceReader[], attributes: RequestAttributes): FoundPart {
  for (const source of sources) {
    const value = source.read(attributes);
    if (value) return { ...source, value };
  }
  return { ...sources[sources.length - 1], value: '' };
}

/** Fast path for keys of one part: avoids a list if the key needs no escaping. */
function singleReader(sources: readonly SourceReader[]): KeyReader {
  const last = sources.length - 1;
  return (attributes) => {
    for (let at = 0; at <= last; at++) {
      const { names, start, read } = sources[at];
      const value = read(attributes) ?? '';
      if (value === '' && at < last) continue;
      if (start.length + value.length > SURELY_SHORT) return shortenKey([...names, value]);
      return NEEDS_ESCAPING.test(value) ? [...names, value] : start + value;
    }
    return ANONYMOUS_KEY;
  };
}

const NEEDS_ESCAPING = /[:\\]/;

/** The key of all requests and descriptors that have no key parts. */
export const ANONYMOUS_KEY: readonly string[] = ['', ''];

/** Keys up to this length are never too long, because escaping at most doubles the length. */
const SURELY_SHORT = MAX_KEY_LENGTH / 2;

function sourceReader(source: KeySource): SourceReader {
  const names = 'name' in source ? [source.from, nameOf(source)] : [source.from];
  return { names, start: joinKey(...names, ''), read: readerOf(source) };
}

const nameOf = ({ from, name }: { from: string; name: string }): string =>
  from === 'header' ? name.toLowerCase() : name;

function readerOf(source: KeySource): Reader {
  switch (source.from) {
    case 'address':
      return (attributes) => attributes.address();
    case 'method':
      return (attributes) => attributes.method;
    case 'path':
      return (attributes) => attributes.path;
    case 'host':
      return (attributes) => attributes.host;
    case 'text':
      return () => source.text;
    case 'header': {
      const name = source.name.toLowerCase();
      return (attributes) => headerValue(attributes.header(name), name);
    }
    case 'cookie': {
      const read = cookieValue(source.name);
      return (attributes) => read(attributes.header('cookie'));
    }
    case 'query': {
      const read = queryValue(source.name);
      return (attributes) => read(attributes.search);
    }
    case 'descriptor':
      // Requests have no descriptors.
      return () => undefined;
  }
}

/**
 * Shortens a key above the maximum length, because clients choose the length of their headers. Each
 * part that is longer than a hash is replaced by its hash. If the key is still too long, the whole
 * key is replaced by its hash.
 */
export function shortenKey(parts: readonly string[]): readonly string[] {
  if (isShort(parts)) return parts;
  const hashed = parts.map((part) => (part.length > HASH_LENGTH ? hashOf(part) : part));
  return isShort(hashed) ? hashed : [hashOf(joinKey(...parts))];
}

const isShort = (parts: readonly string[]): boolean => joinKey(...parts).length <= MAX_KEY_LENGTH;

/** SHA-256 in base64url: 43 characters, none of which needs escaping in a key. */
const HASH_LENGTH = 43;
const hashOf = (text: string): string => createHash('sha256').update(text).digest('base64url');
