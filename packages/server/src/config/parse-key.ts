/** Parses the key of a rule's limit: `header:x-api-key | address`, or a list of such parts. */
import { choiceText } from '../expectation.ts';
import { itemsOf } from './fields.ts';
import type { DescriptorMatch, KeyPart, KeySource, RequestMatch } from './model.ts';
import { FIELD_NAME, keyParts } from './schema.ts';
import type { Value } from './value.ts';

type Match = RequestMatch | DescriptorMatch;

const REQUEST_SOURCES = [
  ...['address', 'method', 'path', 'host'],
  ...['header:NAME', 'cookie:NAME', 'query:NAME', 'text:LITERAL'],
];

/** Returns the sources that a rule with this match can use, for messages. */
function sourcesFor(match: Match): readonly string[] {
  if (match.kind === 'request') return REQUEST_SOURCES;
  return [...Object.keys(match.entries).map((name) => `descriptor:${name}`), 'text:LITERAL'];
}

/** Returns the parts of a key. Default: the client's address, or all entries of the descriptor. */
export function parseKey(value: Value, match: Match): readonly KeyPart[] | undefined {
  if (value.isMissing) return defaultKey(match);
  const parts = value.isList ? itemsOf(value, keyParts) : [value];
  const parsed = parts?.map((part) => parsePart(part, match));
  return parsed?.every((part) => part !== undefined) ? parsed : undefined;
}

function defaultKey(match: Match): readonly KeyPart[] {
  if (match.kind === 'request') return [{ sources: [{ from: 'address' }] }];
  const names = Object.keys(match.entries);
  return names.map((name) => ({ sources: [{ from: 'descriptor', name }] }));
}

function parsePart(value: Value, match: Match): KeyPart | undefined {
  const { plain } = value;
  const texts = typeof plain === 'string' ? plain.split(' | ') : [];
  const sources = texts.map((text) => parseSource(text.trim()));
  const isAllowed = (source: KeySource | undefined): source is KeySource =>
    source !== undefined && isSourceFor(source, match);
  if (sources.length > 0 && sources.every(isAllowed)) return { sources };
  const what = `${choiceText(sourcesFor(match))}, or several with \` | \` between`;
  return void value.expected(what);
}

function parseSource(text: string): KeySource | undefined {
  switch (text) {
    case 'address':
    case 'method':
    case 'path':
    case 'host':
      return { from: text };
  }
  const [, from, name] = /^(header|cookie|query|descriptor|text):(.+)$/s.exec(text) ?? [];
  switch (from) {
    case 'header':
      return FIELD_NAME.test(name) ? { from, name: name.toLowerCase() } : undefined;
    case 'cookie':
      return FIELD_NAME.test(name) ? { from, name } : undefined;
    case 'query':
    case 'descriptor':
      return { from, name };
    case 'text':
      return { from, text: name };
    default:
      return undefined;
  }
}

/**
 * Whether a rule with this match can use the source. A rule for descriptors can use the entries
 * that its match lists, because a matching descriptor has exactly these entries.
 */
function isSourceFor(source: KeySource, match: Match): boolean {
  if (source.from === 'text') return true;
  if (source.from !== 'descriptor') return match.kind === 'request';
  return match.kind === 'descriptor' && Object.hasOwn(match.entries, source.name);
}
