/** Parsers that several formats share: request lines, clients, hosts and escapes. */
import { describe, expect, it } from 'vitest';
import { readClient, readHost } from '../../src/formats/client.ts';
import { readRequestLine, readTarget } from '../../src/formats/request-line.ts';
import { canonicalHeader, owned, quoteEnd, unescaped } from '../../src/formats/text.ts';

describe('request lines', () => {
  it.each([
    ['GET / HTTP/1.1', 'GET', '/', '', ''],
    ['GET /a?b=1 HTTP/2.0', 'GET', '/a', 'b=1', ''],
    ['GET /a? HTTP/1.1', 'GET', '/a', '', ''],
    ['GET /a?b?c HTTP/1.1', 'GET', '/a', 'b?c', ''],
    ['GET /a b HTTP/1.1', 'GET', '/a b', '', ''],
    ['GET /', 'GET', '/', '', ''],
    ['GET //host/a HTTP/1.1', 'GET', '//host/a', '', ''],
    ['get / HTTP/1.1', 'get', '/', '', ''],
    ['VERSION-CONTROL / HTTP/1.1', 'VERSION-CONTROL', '/', '', ''],
    ['RPC_IN_DATA /rpc/rpcproxy.dll HTTP/1.1', 'RPC_IN_DATA', '/rpc/rpcproxy.dll', '', ''],
    ['OPTIONS * HTTP/1.1', 'OPTIONS', '*', '', ''],
    ['CONNECT example.com:443 HTTP/1.1', 'CONNECT', 'example.com:443', '', ''],
    ['GET http://example.com HTTP/1.1', 'GET', '/', '', 'example.com'],
    ['GET http://example.com?a HTTP/1.1', 'GET', '/', 'a', 'example.com'],
    ['GET https://u:p@example.com:443/a?b HTTP/1.1', 'GET', '/a', 'b', 'example.com'],
    ['GET http://[2001:db8::5]:80/ HTTP/1.1', 'GET', '/', '', '[2001:db8::5]'],
    ['GET  HTTP/1.1', 'GET', '/', '', ''],
  ])(
    'the request line %s is split into method, path, query and host',
    (text, method, path, search, host) => {
      expect(readRequestLine(text)).toEqual({ method, path, search, host });
    },
  );

  it.each([
    ...['', '-', ' ', 'GET', '\x16\x03\x01', '\x16\x03\x01 a HTTP/1.1', '- http://a:80- -'],
    ...['SSH-2.0-Go', 'USER anonymous', '-GET / HTTP/1.1', 'G"T / HTTP/1.1', ' / HTTP/1.1'],
  ])('`%s` is not a request line', (text) => {
    expect(readRequestLine(text)).toEqual({ method: '', path: '', search: '', host: '' });
  });

  it('a target with a colon but no scheme is a path', () => {
    expect(readTarget('GET', 'a:b/c')).toMatchObject({ path: 'a:b/c', host: '' });
  });
});

describe('client addresses', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:51234', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:51234', '2001:db8::1'],
    ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
    ['::', '::'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['192.0.2.1, 198.51.100.7', '192.0.2.1'],
    [' 2001:db8::1 ,198.51.100.7', '2001:db8::1'],
    ['[2001:db8::1]:80, 198.51.100.7', '2001:db8::1'],
    ['client.example.net', 'client.example.net'],
    ['unix:', 'unix:'],
    ['alice, of two words', 'alice, of two words'],
    ['ключ', 'ключ'],
    ['', ''],
    ['-', ''],
    ['  ', ''],
    ['192.0.2.1\0', ''],
    ['\u001b[31m', ''],
    ['a\nb', ''],
  ])('the client of `%s` is `%s`', (text, client) => {
    expect(readClient(text)).toBe(client);
  });

  it('readHost removes the port', () => {
    expect(['a', 'a:80', '[::1]:80', '[::1]', ':80', '-', ''].map(readHost)).toEqual([
      ...['a', 'a', '[::1]', '[::1]', '', '', ''],
    ]);
  });
});

describe('quoted text', () => {
  it.each([
    ['abc" d', 3],
    ['a\\"c" d', 4],
    ['a\\\\" d"', 3],
    ['a\\\\\\"c"', 6],
    ['"', 0],
    ['never', -1],
    ['never\\"', -1],
  ])('quoteEnd of %s is %i', (text, end) => {
    expect(quoteEnd(text, 0)).toBe(end);
  });

  it('quoteEnd ignores a backslash before the start', () => {
    expect(quoteEnd('\\"a"', 1)).toBe(1);
  });

  it.each([
    ['plain', 'plain'],
    ['\\"a\\"', '"a"'],
    ['\\\\x41', '\\x41'],
    ['\\x41\\x42', 'AB'],
    ['caf\\xC3\\xa9', 'café'],
    ['\\xff', '\ufffd'],
    ['a\\tb\\nc', 'a\tb\nc'],
    ['\\xzz', 'xzz'],
    ['ends\\', 'ends\\'],
  ])('unescaped decodes %s', (text, meaning) => {
    expect(unescaped(text)).toBe(meaning);
  });

  it('owned returns an equal string', () => {
    for (const text of ['', 'short', 'as long as thirteen', 'ключ '.repeat(9)]) {
      expect(owned(text)).toBe(text);
    }
  });
});

it('canonicalHeader formats header names as Go does', () => {
  expect(['user-agent', 'x-api-key', 'te', 'X-Forwarded-For', 'x-1a'].map(canonicalHeader)).toEqual(
    ['User-Agent', 'X-Api-Key', 'Te', 'X-Forwarded-For', 'X-1a'],
  );
});
