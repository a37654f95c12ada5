/** Random requests, written as each server writes them, and read again. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { alb } from '../../src/formats/alb.ts';
import { caddy } from '../../src/formats/caddy.ts';
import { combined } from '../../src/formats/combined.ts';
import { csv, headingOf } from '../../src/formats/csv.ts';
import { jsonLines } from '../../src/formats/json-lines.ts';
import { traefik } from '../../src/formats/traefik.ts';
import { type Fields, fieldsOf, RUNS } from '../reading.ts';

const hex = fc.integer({ min: 0, max: 0xffff }).map((value) => value.toString(16));
const clients = fc.oneof(
  fc.ipV4(),
  fc.tuple(hex, hex, hex).map((parts) => `2001:db8:${parts.join(':')}::1`),
  fc.domain(),
);
/** Text of any characters, for paths and queries. */
const texts = fc.string({ unit: 'grapheme', maxLength: 20 });
const paths = texts.map((text) => `/${text.replace(/\?/g, '')}`);
const users = fc.oneof(fc.constant(''), fc.constant('alice'), fc.emailAddress());

const requests: fc.Arbitrary<Fields> = fc.record({
  timeMs: fc.integer({ min: 1e11, max: 4e12 }),
  client: clients,
  method: fc.constantFrom('GET', 'POST', 'DELETE', 'M-SEARCH'),
  path: paths,
  search: texts,
  host: fc.oneof(fc.domain(), fc.constant('')),
  status: fc.integer({ min: 0, max: 999 }),
  bytes: fc.nat({ max: 2 ** 40 }),
  user: users,
});

const target = ({ path, search }: Fields): string => (search === '' ? path : `${path}?${search}`);
const dashed = (text: string): string => (text === '' ? '-' : text);
const isoOf = ({ timeMs }: Fields): string => new Date(timeMs).toISOString();

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function clfOf(entry: Fields): string {
  const [year, month, day, clock] = isoOf(entry).split(/[-TZ]/);
  return `${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000`;
}

/** nginx: every byte that is not printable ASCII, and quotes and backslashes, as `\xHH`. */
const nginxEscaped = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => {
      const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c;
      const code = byte.toString(16).toUpperCase().padStart(2, '0');
      return isPlain ? String.fromCharCode(byte) : `\\x${code}`;
    })
    .join('');

/** Apache: a backslash before quotes and backslashes, and other bytes as letters or `\xhh`. */
const apacheEscaped = (text: string): string =>
  text
    .replace(/["\\]/g, '\\$&')
    .replace(/[\n\t\r]/g, (space) => ({ '\n': '\\n', '\t': '\\t', '\r': '\\r' })[space] as string)
    .replace(/[^ -~]/gu, (character) =>
      [...Buffer.from(character)]
        .map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`)
        .join(''),
    );

const common = (entry: Fields, escaped: (text: string) => string): string => {
  const request = escaped(`${entry.method} ${target(entry)} HTTP/1.1`);
  const who = `${entry.client} - ${dashed(entry.user)} [${clfOf(entry)}]`;
  return `${who} "${request}" ${entry.status} ${entry.bytes} "-" "curl/8.5.0"`;
};

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;
const heading = headingOf('time,client,method,path,query,host,status,bytes,user');
const table = heading && csv(heading);

const WRITERS: readonly [string, (entry: Fields) => string, (line: string) => unknown][] = [
  [
    'combined as nginx writes it',
    (entry) => `${dashed(entry.host)}:443 ${common(entry, nginxEscaped)}`,
    combined.read,
  ],
  [
    'combined as Apache writes it',
    (entry) => `${entry.host}:80 ${common(entry, apacheEscaped)}`,
    combined.read,
  ],
  [
    'caddy',
    (entry) =>
      JSON.stringify({
        ...{ level: 'info', ts: entry.timeMs / 1000, msg: 'handled request' },
        request: {
          ...{ remote_ip: '10.0.0.1', client_ip: entry.client, method: entry.method },
          ...{ host: entry.host, uri: target(entry) },
        },
        ...{ user_id: entry.user, size: entry.bytes, status: entry.status },
      }),
    caddy.read,
  ],
  [
    'traefik',
    (entry) =>
      JSON.stringify({
        ...{ StartUTC: isoOf(entry), ClientHost: entry.client, RequestMethod: entry.method },
        ...{ RequestPath: target(entry), RequestHost: entry.host, DownstreamStatus: entry.status },
        ...{ DownstreamContentSize: entry.bytes, ClientUsername: dashed(entry.user) },
      }),
    traefik.read,
  ],
  [
    'json-lines',
    (entry) =>
      JSON.stringify({ ...entry, timeMs: undefined, time: isoOf(entry), path: target(entry) }),
    jsonLines().read,
  ],
  [
    'csv',
    (entry) =>
      [isoOf(entry), entry.client, entry.method, entry.path, entry.search, entry.host]
        .concat(String(entry.status), String(entry.bytes), entry.user)
        .map(quoted)
        .join(','),
    (line) => table?.read(line),
  ],
];

/** False for values that a table trims or a line cannot contain. */
const isPlainLine = ({ path, search }: Fields): boolean =>
  !/[\r\n]/.test(path + search) && path.trimEnd() === path && search.trim() === search;
const hasNoDash = ({ search }: Fields): boolean => search !== '-' && !search.startsWith('?');

describe.each(WRITERS)('round trip through %s', (name, write, read) => {
  it(`every request in the format ${name} is read back unchanged`, () => {
    const plain = name === 'csv' ? requests.filter(isPlainLine).filter(hasNoDash) : requests;
    fc.assert(
      fc.property(plain, (entry) => {
        const found = read(write(entry)) as Parameters<typeof fieldsOf>[0] | undefined;
        expect(found && fieldsOf(found)).toEqual(entry);
      }),
      { numRuns: RUNS },
    );
  });
});

it('every request written as an ALB line is read back unchanged', () => {
  const encoded = requests.map((entry) => ({
    ...{ ...entry, user: '', host: entry.host || 'example.com' },
    ...{ path: encodeURI(entry.path), search: encodeURI(entry.search) },
  }));
  fc.assert(
    fc.property(encoded, fc.nat({ max: 5000 }), (entry, tookMs) => {
      const respondedAt = isoOf({ ...entry, timeMs: entry.timeMs + tookMs });
      const request = `${entry.method} https://${entry.host}:443${target(entry)} HTTP/1.1`;
      const line = [
        ...['https', respondedAt, 'app/lb/1', `${entry.client}:2817`, '10.0.0.1:80', '0', '0', '0'],
        ...[entry.status, 200, 34, entry.bytes, `"${request}"`, '"curl/8.5.0"', 'TLS', 'TLSv1.2'],
        ...[
          'arn',
          '"Root=1"',
          `"${entry.host}"`,
          '"-"',
          0,
          isoOf(entry),
          '"forward"',
          '"-"',
          '"-"',
        ],
      ].join(' ');
      const found = alb.read(line);
      expect(found && fieldsOf(found)).toEqual(entry);
    }),
    { numRuns: RUNS },
  );
});
