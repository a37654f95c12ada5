import { describe, expect, it } from 'vitest';
import { type AddressOptions, clientAddress } from '../../src/http/client-address.ts';

function open(options: AddressOptions) {
  const codes: string[] = [];
  const read = clientAddress({ ...options, onWarning: ({ code }) => void codes.push(code) });
  const key = (socket: string | undefined, headers: Record<string, string> = {}): string =>
    read(socket, (name) => headers[name]);
  return { key, codes: () => codes };
}

describe('a request without a valid socket address', () => {
  const forwarded = { 'x-forwarded-for': '9.9.9.9, 1.1.1.1' };

  it.each([undefined, '', 'unknown', '/run/app.sock', '1.2.3.4:80'])(
    'a socket address of %j has the key `unknown` and a warning',
    (socket) => {
      for (const options of [{}, { trustProxy: ['10.0.0.0/8'] }]) {
        const { key, codes } = open(options);
        expect([key(socket, forwarded), key(socket)]).toEqual(['unknown', 'unknown']);
        expect(codes()).toEqual(['WARN_NO_CLIENT_ADDRESS']);
      }
    },
  );

  it('with a number of proxies, a peer without an address is the nearest proxy', () => {
    const one = open({ trustProxy: 1 });
    expect(one.key(undefined, forwarded)).toBe('1.1.1.1');
    const two = open({ trustProxy: 2 });
    expect(two.key(undefined, forwarded)).toBe('9.9.9.9');
    expect([...one.codes(), ...two.codes()]).toEqual([]);
  });

  it('with a number of proxies, a missing or invalid header gives the key `unknown`', () => {
    const { key, codes } = open({ trustProxy: 1 });
    expect(key(undefined)).toBe('unknown');
    expect(key(undefined, { 'x-forwarded-for': '_hidden' })).toBe('unknown');
    expect(codes()).toEqual(['WARN_FORWARDED_MISSING', 'WARN_FORWARDED_UNREADABLE']);
  });
});
