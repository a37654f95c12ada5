/** Whom the requests of a log count for, chosen by a word. */
import type { Entry } from '../entry.ts';
import { clientNames } from './client-name.ts';

/** What a request has that lacks what it is to be counted by: all of those are one. */
const NOBODY = '-';

/** `client`, `user`, `host`, `path`, `everybody`, or `field:NAME` for any other of the line. */
export const KEY_WORDS = ['client', 'user', 'host', 'path', 'everybody', 'field:NAME'] as const;

/** A reader of keys, or undefined for a word that names none. */
export function keyOfEntry(word: string): ((entry: Entry) => string) | undefined {
  if (word === 'client') {
    const nameOf = clientNames();
    return ({ client }) => nameOf(client);
  }
  if (word === 'user' || word === 'host' || word === 'path')
    return (entry) => entry[word] || NOBODY;
  if (word === 'everybody') return () => word;
  const field = /^field:(.+)$/.exec(word)?.[1];
  return field === undefined ? undefined : (entry) => entry.field(field) || NOBODY;
}
