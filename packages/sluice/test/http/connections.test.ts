/** Clients that are known by their connection, of whose requests little is read. */
import { describe, expect, it } from 'vitest';
import { type AddressWarning, type ClientKeys, clientKeys } from '../../src/http/client-address.ts';

type Headers = Readonly<Record<string, string>>;

describe('a connection', () => {
  /** Asks as servers do: by the connection, and else by all that is known of a request. */
  function ask(keys: ClientKeys, connection: object, address: string, headers: Headers = {}) {
    const known = keys.known(connection);
    const header = (name: string) => headers[name];
    const key = known ?? keys.of({ socketAddress: address, connection, header });
    return { key, isRead: known === undefined };
  }

  it('that has been used for a while is known by itself, but for 1 request in 16', () => {
    const keys = clientKeys();
    const connection = {};
    const asked = Array.from({ length: 1000 }, () => ask(keys, connection, '2001:db8::1'));
    expect(new Set(asked.map(({ key }) => key))).toEqual(new Set(['2001:db8::/64']));
    expect(asked.slice(0, 256).every(({ isRead }) => isRead)).toBe(true);
    const later = asked.slice(-160).filter(({ isRead }) => isRead);
    expect(later).toHaveLength(10);
  });

  it('that is new is never taken for another', () => {
    const keys = clientKeys();
    const first = {};
    for (let request = 0; request < 1000; request++) ask(keys, first, '10.0.0.1');
    for (let client = 2; client < 200; client++) {
      const address = `10.0.0.${client}`;
      expect(ask(keys, {}, address)).toEqual({ key: address, isRead: true });
      expect(ask(keys, first, '10.0.0.1').key).toBe('10.0.0.1');
    }
  });

  it('has a key of its own for each reader', () => {
    const [narrow, wide] = [clientKeys(), clientKeys({ ipv6Prefix: 48 })];
    const connection = {};
    for (let request = 0; request < 1000; request++) {
      expect(ask(narrow, connection, '2001:db8:1:2::3').key).toBe('2001:db8:1:2::/64');
      expect(ask(wide, connection, '2001:db8:1:2::3').key).toBe('2001:db8:1::/48');
    }
  });

  it('tells nothing where proxies are trusted: many clients share it', () => {
    const keys = clientKeys({ trustProxy: 1, onWarning: () => {} });
    const connection = {};
    for (let client = 0; client < 600; client++) {
      const address = `1.1.${client >> 8}.${client & 255}`;
      const headers = { 'x-forwarded-for': address };
      expect(ask(keys, connection, '10.0.0.1', headers)).toEqual({ key: address, isRead: true });
    }
  });

  it('over which a proxy begins to send headers is warned of soon', () => {
    const warnings: AddressWarning[] = [];
    const keys = clientKeys({ onWarning: (warning) => warnings.push(warning) });
    const connection = {};
    for (let request = 0; request < 1000; request++) ask(keys, connection, '10.0.0.1');
    for (let request = 0; request < 16; request++) {
      ask(keys, connection, '10.0.0.1', { forwarded: 'for=1.1.1.1' });
    }
    expect(warnings.map(({ code }) => code)).toEqual(['WARN_FORWARDED_IGNORED']);
  });
});
