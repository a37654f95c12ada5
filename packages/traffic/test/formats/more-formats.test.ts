/** Formats of proxies and content delivery networks, prefixes of collectors, and patterns. */
import { describe, expect, it } from 'vitest';
import { makeFile, readAll } from '../reading.ts';

const TIME_MS = Date.UTC(2026, 9, 10, 13, 55, 36);
const COMBINED =
  '198.51.100.7 - alice [10/Oct/2026:13:55:36 +0000] "GET /a?b=1 HTTP/1.1" 200 512 "-" "curl/8"';
const JSON_LINE =
  '{"time":"2026-10-10T13:55:36Z","client":"198.51.100.7","method":"GET","path":"/a?b=1",' +
  '"status":200}';
const REQUEST = { timeMs: TIME_MS, client: '198.51.100.7', method: 'GET', path: '/a', status: 200 };

const HAPROXY =
  '198.51.100.7:33317 [10/Oct/2026:13:55:36.655] http-in static/srv1 10/0/30/69/109 200 2750 ' +
  '- - ---- 1/1/1/1/0 0/0 {example.com|curl} {} "GET /a?b=1 HTTP/1.1"';
const ENVOY =
  '[2026-10-10T13:55:36.310Z] "GET /a?b=1 HTTP/2" 200 - 154 99 226 100 "198.51.100.7, 10.0.0.1" ' +
  '"curl/8" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.com:443" "tcp://10.0.2.1:80"';
const ISTIO =
  '[2026-10-10T13:55:36.310Z] "GET /a?b=1 HTTP/1.1" 200 - via_upstream - "-" 0 99 3 2 "-" ' +
  '"curl/8" "3c0b" "example.com" "10.1.2.3:8080" a|80||b 10.1.2.3:4 10.1.2.4:80 198.51.100.7:55 -';
const CLOUDFRONT = [
  '#Version: 1.0',
  '#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status ' +
    'cs(Referer) cs(User-Agent) cs-uri-query x-host-header',
  [
    ...['2026-10-10', '13:55:36', 'FRA2', '99', '198.51.100.7', 'GET', 'd1.cloudfront.net', '/a'],
    ...['200', '-', 'Mozilla/5.0%20(X11)', 'b=1', 'example.com'],
  ].join('\t'),
];
const IIS = [
  '#Software: Microsoft Internet Information Services 10.0',
  '#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip ' +
    'cs(User-Agent) sc-status',
  '2026-10-10 13:55:36 10.0.0.1 GET /a b=1 443 alice 198.51.100.7 Mozilla/5.0+(X11) 200',
  '#Fields: date time c-ip cs-method cs-uri-stem sc-status',
  '2026-10-10 13:55:36 198.51.100.7 GET /a 200',
];

const read = (lines: readonly string[], options = {}) =>
  readAll(makeFile(`${lines.join('\n')}\n`), options);

describe('detected formats', () => {
  it.each([
    ['haproxy', [HAPROXY], { ...REQUEST, timeMs: TIME_MS + 655, search: 'b=1', bytes: 2750 }],
    ['envoy', [ENVOY], { ...REQUEST, timeMs: TIME_MS + 310, bytes: 99, host: 'example.com' }],
    ['envoy', [ISTIO], { ...REQUEST, timeMs: TIME_MS + 310, bytes: 99, host: 'example.com' }],
    ['cloudfront', CLOUDFRONT, { ...REQUEST, search: 'b=1', bytes: 99, host: 'example.com' }],
    ['iis', IIS, { ...REQUEST, search: 'b=1', user: 'alice' }],
  ])('a log of %s is detected and read', async (format, lines, expected) => {
    const { entries, report } = await read(lines);
    expect(report).toMatchObject({ format, unreadable: 0 });
    expect(report.heading).toBe(lines.filter((line) => line.startsWith('#')).length);
    expect(entries[0]).toMatchObject(expected);
    expect((await read(lines, { format })).report.entries).toBe(entries.length);
  });

  it('field returns the headers of proxy and CDN formats', async () => {
    const agent = async (lines: readonly string[]) =>
      (await read(lines)).entries[0].field('user-agent');
    expect(await agent([ENVOY])).toBe('curl/8');
    expect(await agent(CLOUDFRONT)).toBe('Mozilla/5.0 (X11)');
    expect(await agent(IIS)).toBe('Mozilla/5.0 (X11)');
    expect((await read([HAPROXY])).entries[0].field('captured')).toBe('example.com|curl');
  });

  it('the columns of an IIS log may change within the log', async () => {
    const { entries } = await read(IIS);
    expect(entries).toHaveLength(2);
    expect(entries[1]).toMatchObject({ ...REQUEST, user: '' });
  });

  it('HAProxy lines without a status or with an IPv6 client are read', async () => {
    const aborted = HAPROXY.replace(' 200 2750', ' -1 +0').replace('198.51.100.7', '2001:db8::1');
    expect((await read([aborted])).entries[0]).toMatchObject({ status: 0, client: '2001:db8::1' });
  });
});

describe('prefixes', () => {
  const PREFIXED: readonly [string, (line: string) => string][] = [
    ['docker', (line) => JSON.stringify({ log: `${line}\n`, stream: 'stdout', time: 'now' })],
    ['cri', (line) => `2026-10-10T13:55:36.123456789Z stdout F ${line}`],
    ['kubernetes', (line) => `[pod/web-5d4f/nginx] ${line}`],
    ['kubernetes', (line) => `web-1  | ${line}`],
    ['syslog', (line) => `Oct  9 13:55:36 web nginx[14389]: ${line}`],
    ['syslog', (line) => `<134>Oct 10 13:55:36 web nginx: ${line}`],
    ['syslog', (line) => `<134>1 2026-10-10T13:55:36.003Z web nginx 12 - - ${line}`],
    ['syslog', (line) => `2026-10-10T13:55:36.123456+00:00 web nginx[12]: ${line}`],
    ['timestamp', (line) => `2026-10-10T13:55:36.123456789Z ${line}`],
  ];

  it.each(PREFIXED)('lines with the prefix %s are read in any format', async (name, prefix) => {
    const all = { combined: [COMBINED], 'json-lines': [JSON_LINE], haproxy: [HAPROXY], iis: IIS };
    for (const [format, lines] of Object.entries(all)) {
      const { entries, report } = await read(lines.map(prefix));
      expect(report).toMatchObject({ format: `${name} ${format}`, unreadable: 0 });
      const { timeMs: _, ...request } = REQUEST;
      expect(entries[0]).toMatchObject(request);
      expect(Math.floor(entries[0].timeMs / 1000)).toBe(TIME_MS / 1000);
    }
  });
});

describe('patterns', () => {
  const LINE =
    '10/Oct/2026:13:55:36 +0000|198.51.100.7|"GET /a?b=1 HTTP/1.1" 200 0.003 "key \\"1\\""';

  it('a pattern can be a log_format of nginx', async () => {
    const pattern = '$time_local|$remote_addr|"$request" $status $request_time "$http_x_api_key"';
    const { entries, report } = await read([LINE, 'other'], { pattern });
    expect(report).toMatchObject({ format: 'pattern', entries: 1, unreadable: 1 });
    expect(entries[0]).toMatchObject({ ...REQUEST, search: 'b=1' });
    expect(entries[0].field('x-api-key')).toBe('key "1"');
    expect(entries[0].field('request_time')).toBe('0.003');
  });

  it('a pattern can be a regular expression with named groups', async () => {
    const pattern = String.raw`^(?<time>[^|]+)\|(?<client>\S+?)\|"(?<request>[^"]*)" (?<code>\d+)`;
    expect((await read([LINE], { pattern })).entries[0]).toMatchObject(REQUEST);
  });

  it('--column names the variables of a pattern, and prefixes are removed', async () => {
    const pattern = '$when $ignored $who';
    const columns = { time: 'when', client: 'who' };
    const lines = ['web-1  | 2026-10-10T13:55:36Z x 198.51.100.7'];
    const { entries } = await read(lines, { pattern, columns });
    expect(entries[0]).toMatchObject({ timeMs: TIME_MS, client: '198.51.100.7' });
  });

  it.each([
    ['$remote_addr $status', /^Expected the pattern to have a time and a client/],
    ['(?<time>[) (?<client>.)', /^Expected the pattern to have a valid regular expression/],
  ])('the pattern %s is rejected', async (pattern, message) => {
    await expect(read([LINE], { pattern })).rejects.toThrow(message);
  });
});
