/** Whom a limit of a rule counts: `header:x-api-key | address`, or a list of such parts. */
import type { DescriptorMatch, KeyPart, KeySource, RequestMatch } from './model.ts';
import { choice, type Value } from './value.ts';
import { FIELD_NAME, REQUEST_SOURCES } from './vocabulary.ts';

type Match = RequestMatch | DescriptorMatch;

const MAX_PARTS = 16;

/** What a rule is about decides where keys can come from. */
function sourcesOf(match: Match): readonly string[] {
  if (match.kind === 'request') return REQUEST_SOURCES;
  return [...Object.keys(match.entries).map((name) => `descriptor:${name}`), 'text:LITERAL'];
}

/** Without a key: the client's address, or all entries of the descriptor. */
export function parseKey(value: Value, match: Match): readonly KeyPart[] | undefined {
  if (value.isMissing) return usualKey(match);
  const given = value.oneOrMore();
  if (given.length === 0 || given.length > MAX_PARTS) {
    const what = `${value.label} to have 1 to ${MAX_PARTS} parts`;
    return value.report(`Expected ${what}, got ${given.length}`);
  }
  const parts = given.map((part) => readPart(part, match));
  return parts.every((part) => part !== undefined) ? parts : undefined;
}

function usualKey(match: Match): readonly KeyPart[] {
  if (match.kind === 'request') return [{ sources: [{ from: 'address' }] }];
  const names = Object.keys(match.entries);
  return names.map((name) => ({ sources: [{ from: 'descriptor', name }] }));
}

function readPart(value: Value, match: Match): KeyPart | undefined {
  const what = `${choice(sourcesOf(match))}, or several with \` | \` between`;
  const text = value.text(what);
  if (text === undefined) return undefined;
  const sources = text.split(' | ').map((each) => readSource(each.trim()));
  const isRight = (source: KeySource | undefined): source is KeySource =>
    source !== undefined && isSourceOf(source, match);
  return sources.every(isRight) ? { sources } : value.expected(what);
}

function readSource(text: string): KeySource | undefined {
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

/** A descriptor that fits a rule has just the entries that the rule names. */
function isSourceOf(source: KeySource, match: Match): boolean {
  if (source.from === 'text') return true;
  if (source.from !== 'descriptor') return match.kind === 'request';
  return match.kind === 'descriptor' && Object.hasOwn(match.entries, source.name);
}
