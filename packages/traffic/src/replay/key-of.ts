/** The keys by which the commands can count the requests of a log. */
import type { Entry } from '../entry.ts';
import { clientNames } from './client-name.ts';

/** All requests without the field share this key. */
const NO_KEY = '-';

/** Names of the keys. `field:NAME` is any other field of the line. */
export const KEY_WORDS = ['client', 'user', 'host', 'path', 'all', 'field:NAME'] as const;

/** Returns a function that returns the key of an entry, or undefined if `word` is unknown. */
export function keyOfEntry(word: string): ((entry: Entry) => string) | undefined {
  if (word === 'client') {
    const nameOf = clientNames();
    return ({ client }) => nameOf(client);
  }
  if (word === 'user' || word === 'host' || word === 'path')
    return (entry) => entry[word] || NO_KEY;
  if (word === 'all') return () => word;
  const field = /^field:(.+)$/.exec(word)?.[1];
  return field === undefined ? undefined : (entry) => entry.field(field) || NO_KEY;
}
