/** Parsing of X-Forwarded-For and Forwarded. */
import { describe, expect, it } from 'vitest';
import { clientAddress, type ForwardedHeader } from '../../src/http/client-address.ts';
import { growth, MAX_LINEAR_GROWTH } from './growth.ts';

const PROXIES = ['10.0.0.0/8'];

/** Returns the key of a request from the trusted proxy 10.0.0.1 with this header only. */
const reading =
  (forwardedHeader: ForwardedHeader) =>
  (trustProxy: number | readonly string[], list: string): string => {
    const read = clientAddress({ trustProxy, forwardedHeader, onWarning: () => {} });
    return read('10.0.0.1', (name) => (name === forwardedHeader ? list : undefined));
  };
const xff = reading('x-forwarded-for');
const forwarded = reading('forwarded');

describe('X-Forwarded-For', () => {
  it.each([
    ['1.1.1.1:5678', '1.1.1.1'],
    ['[2001:db8::1]', '2001:db8::/64'],
    ['[2001:db8::1]:443', '2001:db8::/64'],
    ['2001:db8::1', '2001:db8::/64'],
    // Without brackets, 80 is the last group, not a port.
    ['2001:db8:0:0:0:0:1:443', '2001:db8::/64'],
    ['[::ffff:1.1.1.1]:443', '1.1.1.1'],
    ['fe80::1%eth0', 'fe80::/64'],
    [' \t 1.1.1.1 \t ', '1.1.1.1'],
    ['9.9.9.9 ,\t1.1.1.1', '1.1.1.1'],
  ])('with the header %j, the client is %s', (list, key) => {
    expect(xff(1, list)).toBe(key);
  });

  it.each([
    ...['[1.1.1.1]', '[1.1.1.1]:80', '1.1.1.1:', '1.1.1.1:123456', '1.1.1.1:80:80', '1.1.1.1:x'],
    ...['[2001:db8::1', '2001:db8::1]', '[2001:db8::1]:', '[2001:db8::1]x', '[[::1]]', '[]'],
    ...['"1.1.1.1"', "'1.1.1.1'", 'for=1.1.1.1', '1.1.1.1;', '1.1.1.1 2.2.2.2', '\u00a01.1.1.1'],
    ...['1.1.1.1/32', 'http://1.1.1.1', '1.1.1.1, ', ',', '\x001.1.1.1'],
  ])('if the address in %j is invalid, the proxy is the client', (list) => {
    expect(xff(1, list)).toBe('10.0.0.1');
  });
});

describe('Forwarded', () => {
  it.each([
    ['for=1.1.1.1', '1.1.1.1'],
    ['For=1.1.1.1', '1.1.1.1'],
    ['FOR="1.1.1.1"', '1.1.1.1'],
    ['for="1.1.1.1:5678"', '1.1.1.1'],
    ['for="1.1.1.1:_port"', '1.1.1.1'],
    ['for="[2001:db8::1]"', '2001:db8::/64'],
    ['for="[2001:DB8::1]:443"', '2001:db8::/64'],
    ['for="\\1.1\\.1.1"', '1.1.1.1'],
    ['proto=https;for=1.1.1.1;by=203.0.113.43', '1.1.1.1'],
    ['proto=https ;\tfor=1.1.1.1 ; by=_x', '1.1.1.1'],
    [';;for=1.1.1.1;', '1.1.1.1'],
    ['for=9.9.9.9, for=1.1.1.1', '1.1.1.1'],
    ['for=9.9.9.9,for=1.1.1.1 ,for=10.0.0.2', '1.1.1.1'],
    // Separators in quotes are text.
    ['for=1.1.1.1;host="a, for=9.9.9.9"', '1.1.1.1'],
    ['for=1.1.1.1;host="a;for=9.9.9.9"', '1.1.1.1'],
    ['for=1.1.1.1;host="a\\", for=9.9.9.9;x=\\"b"', '1.1.1.1'],
    ['for=1.1.1.1;host="\\\\"', '1.1.1.1'],
    ['for=9.9.9.9;host="\\\\", for=1.1.1.1', '1.1.1.1'],
    // RFC 7239 requires quotes here, but many proxies omit them.
    ['for=1.1.1.1:80', '1.1.1.1'],
    ['for=[2001:db8::1]:80', '2001:db8::/64'],
    // All addresses are trusted, so the client is the leftmost.
    ['for=10.0.0.3, for=10.0.0.2', '10.0.0.3'],
  ])('with the header %j, the client is %s', (list, key) => {
    expect(forwarded(PROXIES, list)).toBe(key);
  });

  it.each([
    ...['for=unknown', 'for=_hidden', 'for="_hidden:80"', 'for=', 'for=""', 'for', '=1.1.1.1'],
    ...['by=1.1.1.1', 'proto=https', '', ' ', '1.1.1.1', 'xfor=1.1.1.1', 'for =1.1.1.1'],
    ...['for= 1.1.1.1', 'for=1.1.1.1;for=1.1.1.1', 'for=1.1.1.1;FOR=2.2.2.2', 'for="1.1.1.1'],
    ...['for=1.1.1.1"', 'for="1.1.1.1"x', 'for="1.1.1.1\\"', 'for=1.1.1.1;host="', 'for=1.1.1.1;x'],
    ...['for="2001:db8::1"', 'for=2001:db8::1', 'for="[1.1.1.1]"', 'for=01.1.1.1', 'for="a, b"'],
    ...["for='1.1.1.1'", 'for=1.1.1.1 proto=https', 'f\u00f6r=1.1.1.1'],
  ])('if the address in %j is invalid, the proxy is the client', (list) => {
    expect(forwarded(PROXIES, list)).toBe('10.0.0.1');
    expect(forwarded(PROXIES, `for=9.9.9.9, ${list}`)).toBe('10.0.0.1');
  });

  it.each([
    'for="',
    'for="9.9.9.9',
    'for=9.9.9.9;host="',
    'for=9.9.9.9;host="\\',
    'for="\\"',
    '"',
    '\\',
    '""""",',
    'for=9.9.9.9;host="a", for="',
  ])('the forged header %j does not hide the address that the proxy appends', (forged) => {
    for (const honest of ['for=1.1.1.1', 'for="1.1.1.1:80";host="a,b"', 'by="\\"";for=1.1.1.1']) {
      expect(forwarded(PROXIES, `${forged}, ${honest}`)).toBe('1.1.1.1');
      expect(forwarded(1, `${forged}, ${honest}`)).toBe('1.1.1.1');
      expect(forwarded(2, `${forged}, ${honest}, for=10.0.0.2`)).toBe('1.1.1.1');
    }
  });

  it('only the header named in forwardedHeader is parsed', () => {
    const both = new Map([
      ['x-forwarded-for', '1.1.1.1'],
      ['forwarded', 'for=2.2.2.2'],
    ]);
    const key = (forwardedHeader: ForwardedHeader) =>
      clientAddress({ trustProxy: 1, forwardedHeader })('10.0.0.1', (name) => both.get(name));
    expect(key('x-forwarded-for')).toBe('1.1.1.1');
    expect(key('forwarded')).toBe('2.2.2.2');
  });
});

describe('bounds of the parser', () => {
  it('the parser reads at most 64 addresses from the right', () => {
    const list = Array.from({ length: 70 }, (_, index) => `10.0.1.${index}`).join(', ');
    expect(xff(PROXIES, list)).toBe('10.0.1.6');
    expect(xff(PROXIES, `1.1.1.1, ${list}`)).toBe('10.0.1.6');
  });

  it('the parser reads at most 8 KB from the right and drops an address that is cut', () => {
    const proxies = ', 10.0.0.2';
    const padded = (address: string) => address + ' '.repeat(8192 - 7 - proxies.length) + proxies;
    expect(xff(PROXIES, padded('1.1.1.1'))).toBe('1.1.1.1');
    expect(xff(PROXIES, padded('21.1.1.1'))).toBe('10.0.0.2');
    expect(xff(PROXIES, padded('9.9.9.9,1.1.1.1'))).toBe('10.0.0.2');
  });

  const adversarial = [
    ' ',
    '\t',
    ',',
    '"',
    '\\',
    '\\"',
    ';',
    'for=',
    '1',
    '1.',
    ':',
    '[',
    '%',
    '= ',
  ];

  it.each(adversarial)('the parser takes linear time on repetitions of %j', (piece) => {
    const run = (size: number) => {
      const text = piece.repeat(size / piece.length);
      const lists = [text, `1.1.1.1${text}2.2.2.2`, `for="${text}"`, `for=${text};a=b`];
      return lists.flatMap((list) => [xff(PROXIES, list), forwarded(PROXIES, list)]);
    };
    expect(growth(run)).toBeLessThan(MAX_LINEAR_GROWTH);
    for (const key of run(400_000)) expect(key).toMatch(/^[0-9.]+$/);
  });
});
