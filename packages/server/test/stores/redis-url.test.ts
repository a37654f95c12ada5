import { describe, expect, test } from 'vitest';
import { readSettings, SettingsError, shownSettings } from '../../src/settings.ts';
import { storeKind } from '../../src/stores/index.ts';
import { parseRedisUrl } from '../../src/stores/redis/url.ts';
import { StoreUrlError } from '../../src/stores/store-kind.ts';

/** Returns the problem of a URL as the value of `--store`. */
function problemOf(url: string): string {
  try {
    readSettings({ store: url }, {}, {});
  } catch (error) {
    if (error instanceof SettingsError) return error.message;
    throw error;
  }
  throw new Error(`${url} was accepted`);
}

describe('parseRedisUrl', () => {
  test('parseRedisUrl parses scheme, login, hosts, master, database and query', () => {
    const url =
      'redis+sentinel://me:s%40t@a,[::1]:5/main/2' +
      '?tls=true&ca=%2Fca.pem&sentinelUsername=watch&sentinelPassword=p%26w';
    expect(parseRedisUrl(url)).toEqual({
      kind: 'redis+sentinel',
      hosts: [
        { host: 'a', port: 26_379 },
        { host: '::1', port: 5 },
      ],
      login: { username: 'me', password: 's@t' },
      sentinelLogin: { username: 'watch', password: 'p&w' },
      master: 'main',
      database: 2,
      isTls: true,
      ca: '/ca.pem',
    });
  });

  test.each([
    ['redis://host', { hosts: [{ host: 'host', port: 6379 }], database: 0, isTls: false }],
    ['redis://host/', { database: 0 }],
    ['redis://:p:w%2F%3f@host:1/15', { login: { password: 'p:w/?' }, database: 15 }],
    ['rediss://host', { kind: 'redis', isTls: true }],
    ['rediss://host/3?ca=/etc/ca.pem', { isTls: true, ca: '/etc/ca.pem', database: 3 }],
    ['redis+cluster://a:1,b:2', { kind: 'redis+cluster', isTls: false }],
    ['redis+cluster://a/?tls=true', { isTls: true }],
    ['redis+cluster://a?tls=false', { isTls: false }],
    ['redis+sentinel://a', { master: 'mymaster', database: 0 }],
    ['redis+sentinel://a/main?sentinelPassword=x', { sentinelLogin: { password: 'x' } }],
  ])('parseRedisUrl parses %s', (url, expected) => {
    expect(parseRedisUrl(url)).toMatchObject(expected);
    expect(() => readSettings({ store: url }, {}, {})).not.toThrow();
  });

  test.each([
    ['redis://', 'without a host'],
    ['redis://:6379', 'a host that is not'],
    ['redis://a:b:c', 'a host that is not'],
    ['redis://a:0', 'a port from 1 to 65535'],
    ['redis://a:65536', 'a port from 1 to 65535'],
    ['redis://[1.2.3.4]', 'a host that is not'],
    ['redis://a b', 'a space or control character'],
    ['redis://a#0', 'write it as %23'],
    ['redis://a,b', 'several hosts; use redis+sentinel:// or redis+cluster://'],
    ['rediss://a:1,b:2', 'several hosts'],
    ['redis://a/x', 'a database that is not an integer'],
    ['redis://a/-1', 'a database that is not an integer'],
    ['redis://a/1.5', 'a database that is not an integer'],
    ['redis://a/01', 'a database that is not an integer'],
    ['redis://a/99999999999', 'a database that is not an integer'],
    ['redis://a/0/1', 'more than a database'],
    ['redis://a//1', 'more than a database'],
    ['redis+cluster://a/0', 'a Cluster has no databases'],
    ['redis+sentinel://a/2', 'write /mymaster/1 for a database'],
    ['redis+sentinel://a/main/x', 'a database that is not an integer'],
    ['redis+sentinel://a/main/0/1', 'more than a master and a database'],
    ['redis+sentinel://a//1', 'an empty name'],
    ['redis://a?tls=1', 'use rediss:// for TLS'],
    ['redis://a?tls=true', 'use rediss:// for TLS'],
    ['redis://a?ca=/ca.pem', 'use rediss://'],
    ['redis://a?db=3', 'an unknown query parameter; it takes none'],
    ['redis+cluster://a?tls=1', '`tls` with a value other than true or false'],
    ['redis+cluster://a?tls=true&tls=false', '`tls` twice'],
    ['redis+cluster://a?tls=false&ca=/ca.pem', '`ca` without TLS'],
    ['redis+cluster://a?ca', '`ca` without a value'],
    ['redis+cluster://a?sentinelPassword=s3cr', 'it takes tls, ca'],
    ['redis+sentinel://a?TLS=true', 'an unknown query parameter'],
    ['redis+sentinel://a?sentinelUsername=me', 'without `sentinelPassword`'],
    ['redis://s3cret@a', 'write user:password@ or :password@'],
    ['redis://user:@a', 'a login without a password'],
    ['http://a', 'an address that begins with `http://`'],
  ])('the store URL %s is rejected with "%s"', (url, reason) => {
    expect(() => storeKind(url).validate(url)).toThrow(StoreUrlError);
    expect(problemOf(url)).toMatch(/^Expected --store to be 'memory' or an address/);
    expect(problemOf(url)).toContain(reason);
  });
});

describe('passwords in store URLs', () => {
  test.each([
    'redis://:s3cr/et@host',
    'redis://:s3cr@et@host',
    'redis://:s3cr?et@host',
    'redis://:s3cr#et@host',
    'redis://:s3cr et@host',
    'redis://:s3cr%et@host',
    'redis://:s3cr:et',
    'redis://s3cret@host:x',
    'redis://user:s3cr/et@host:6379/0?tls=1',
    'redis://:s3cret@a,b',
    'redis://:s3cret@host/99x',
    'redis://:s3cret@host?s3cr=et',
    'redis+sentinel://:s3cret@a/main?sentinelPassword=s3cr&sentinelPassword=et',
    'redis+sentinel://a/main?sentinelPassword=s3cr/et@host',
    'redis+cluster://:s3cret@a:1,b:x',
    's3cret@host',
  ])('the problem of %s does not contain the password', (url) => {
    expect(problemOf(url)).not.toMatch(/s3|cr|et@|et\b/);
  });

  test.each([
    ['redis://me:s3cret@host:6379/1', 'redis://***@host:6379/1'],
    ['redis://me:s3c%40ret@host', 'redis://***@host'],
    [
      'redis+sentinel://me:s3cret@a,b/main?sentinelUsername=s3u&sentinelPassword=s3p&tls=true',
      'redis+sentinel://***@a,b/main?sentinelUsername=***&sentinelPassword=***&tls=true',
    ],
    ['memory', 'memory'],
  ])('shown settings hide the password in %s', (store, shown) => {
    expect(shownSettings(readSettings({ store }, {}, {})).store).toEqual({
      value: shown,
      from: 'flag',
    });
  });
});
