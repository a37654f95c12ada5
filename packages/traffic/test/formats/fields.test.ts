/** Headers, JSON fields and columns of log lines, with default and given names. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { alb } from '../../src/formats/alb.ts';
import { caddy } from '../../src/formats/caddy.ts';
import { combined } from '../../src/formats/combined.ts';
import { csv, headingOf, valuesOf } from '../../src/formats/csv.ts';
import { jsonLines } from '../../src/formats/json-lines.ts';
import { COMMON_NAMES, withNames } from '../../src/formats/named.ts';
import { traefik } from '../../src/formats/traefik.ts';
import { combinedLine, fieldsOf, START_MS } from '../reading.ts';

const TIME = '2026-10-10T11:55:36Z';

describe('fields of a combined line', () => {
  const start = '192.0.2.1 - - [10/Oct/2026:13:55:36 +0200] "GET / HTTP/1.1" 200 12';

  it('field returns the headers of a combined line', () => {
    const entry = combined.read(`${start} "https://a" "a \\"b\\"" "203.0.113.5, 192.0.2.3" 0.01`);
    expect(entry?.field('referer')).toBe('https://a');
    expect(entry?.field('user-agent')).toBe('a "b"');
    expect(entry?.field('x-forwarded-for')).toBe('203.0.113.5, 192.0.2.3');
    expect(entry?.field('cookie')).toBeUndefined();
  });

  it('field returns undefined for a dash and for a header that the line lacks', () => {
    const fields = (line: string) =>
      ['referer', 'user-agent', 'x-forwarded-for'].map((name) => combined.read(line)?.field(name));
    expect(fields(`${start} "-" "-"`)).toEqual([undefined, undefined, undefined]);
    expect(fields(start)).toEqual([undefined, undefined, undefined]);
    expect(fields(`${start} 0.5 "a" "b"`)).toEqual([undefined, undefined, undefined]);
    expect(fields(`${start} "a" "never closed`)).toEqual(['a', undefined, undefined]);
    expect(fields(`${start} "a" "b" 17 "router"`)).toEqual(['a', 'b', undefined]);
  });
});

it('field returns the columns and the user agent of an ALB line', () => {
  const fields =
    'http TIME app/a/1 192.0.2.1:1 - -1 -1 -1 503 - 7 8 "GET http://a:80/ HTTP/1.1" "ua"';
  const entry = alb.read(fields.replace('TIME', TIME));
  expect(entry?.field('received_bytes')).toBe('7');
  expect(entry?.field('user_agent')).toBe('ua');
  expect(entry?.field('user-agent')).toBe('ua');
  expect(entry?.field('target:port')).toBeUndefined();
  expect(entry?.field('trace_id')).toBeUndefined();
  expect(entry?.field('no such name')).toBeUndefined();
});

it('field returns headers and JSON fields of Caddy and Traefik', () => {
  const request = { client_ip: '192.0.2.1', headers: { 'X-Api-Key': ['k1', 'k2'], Cookie: [] } };
  const ofCaddy = caddy.read(JSON.stringify({ ts: 1_791_633_336, request, bytes_read: 17 }));
  expect(ofCaddy?.field('x-api-key')).toBe('k1');
  expect(ofCaddy?.field('cookie')).toBeUndefined();
  expect(ofCaddy?.field('bytes_read')).toBe('17');
  expect(ofCaddy?.field('request.client_ip')).toBe('192.0.2.1');
  expect(ofCaddy?.field('request')).toBeUndefined();
  const ofTraefik = traefik.read(
    JSON.stringify({
      ...{ StartUTC: TIME, ClientHost: '192.0.2.1', RequestMethod: 'GET' },
      ...{ 'request_X-Api-Key': 'k1', RouterName: 'web' },
    }),
  );
  expect(ofTraefik?.field('x-api-key')).toBe('k1');
  expect(ofTraefik?.field('RouterName')).toBe('web');
});

it.each([
  { http_x_api_key: 'k1' },
  { x_api_key: 'k1' },
  { headers: { 'x-api-key': 'k1' } },
  { request: { headers: { 'X-Api-Key': ['k1'] } } },
  { 'x-api-key': 'k1' },
])('field finds a header in the JSON object %j', (members) => {
  const line = JSON.stringify({ time: TIME, client: '192.0.2.1', ...members });
  expect(jsonLines().read(line)?.field('x-api-key')).toBe('k1');
});

it('field of a log entry ignores inherited properties', () => {
  const entry = jsonLines().read(JSON.stringify({ time: TIME, client: '192.0.2.1' }));
  for (const name of ['constructor', 'toString', '__proto__', 'headers.constructor.name', '']) {
    expect(entry?.field(name)).toBeUndefined();
  }
});

it('JSON lines are read by given field names and paths', () => {
  const names = withNames(COMMON_NAMES, { time: 'event.at', client: 'ip', path: 'http.target' });
  const line = { event: { at: TIME }, ip: '192.0.2.1', http: { target: '/a?b' }, path: '/other' };
  const entry = jsonLines(names).read(JSON.stringify(line));
  expect(entry && fieldsOf(entry)).toMatchObject({ timeMs: START_MS, path: '/a', search: 'b' });
  expect(jsonLines().read(JSON.stringify(line))).toBeUndefined();
});

describe('CSV tables', () => {
  const read = (heading: string, line: string, names = COMMON_NAMES) => {
    const found = headingOf(heading, names);
    return found && csv(found, names).read(line);
  };

  it.each([
    ['time,client', `${TIME},192.0.2.1`],
    ['Time;Client IP', `${TIME};192.0.2.1`],
    ['@timestamp\tRemote-Addr', `${TIME}\t192.0.2.1`],
    ['"time" , "client"'.replaceAll(' ', ''), `"${TIME}","192.0.2.1"`],
    ['id,clientIp,timestamp', `1,192.0.2.1,${TIME}`],
  ])('the header line %s is accepted', (heading, line) => {
    expect(read(heading, line)).toMatchObject({ timeMs: START_MS, client: '192.0.2.1' });
  });

  it.each(['time', 'time,what', 'client,what', '', 'a b c', '"time,client'])(
    'the header line `%s` is rejected',
    (heading) => {
      expect(headingOf(heading)).toBeUndefined();
    },
  );

  it('a table is read by given column names, and field returns other columns', () => {
    const names = withNames(COMMON_NAMES, { time: 'when', client: 'ip' });
    const entry = read('ip,when,User-Agent,time', `192.0.2.1,${TIME},ua,never`, names);
    expect(entry?.timeMs).toBe(START_MS);
    expect(entry?.field('user-agent')).toBe('ua');
    expect(entry?.field('time')).toBe('never');
    expect(entry?.field('nothing')).toBeUndefined();
  });

  it('quoted values may contain separators and doubled quotes', () => {
    expect(valuesOf('a,"b,c","d ""e""",', ',')).toEqual(['a', 'b,c', 'd "e"', '']);
    expect(valuesOf('"",""', ',')).toEqual(['', '']);
    expect(valuesOf('', ',')).toEqual(['']);
    expect(valuesOf('a,"b', ',')).toBeUndefined();
    expect(valuesOf('"a"b,c', ',')).toBeUndefined();
  });
});

it('client names do not keep the text of their log in memory', () => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const clients: string[] = [];
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let count = 0; count < 100; count++) {
    const text = `${combinedLine(START_MS, `198.51.100.${100 + count}`)}\n`.repeat(10_000);
    clients.push(combined.read(text.split('\n')[count])?.client ?? '');
  }
  collect();
  expect(new Set(clients).size).toBe(100);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(20 * 2 ** 20);
});
