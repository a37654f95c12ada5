/** The cache of client keys by socket address. */
import { describe, expect, it } from 'vitest';
import { type AddressWarning, clientKeys } from '../../src/http/client-address.ts';

/** Returns the key of an address, and whether it was cached. */
function lookUp(keys: ReturnType<typeof clientKeys>, address: string) {
  let reads = 0;
  const key = keys.of({
    // Computing a key reads the address again, after the look-up in the cache.
    get socketAddress() {
      reads++;
      return address;
    },
    isForwarded: false,
    header: () => undefined,
  });
  return { key, isCached: reads === 1 };
}

const addressOf = (client: number): string => `10.0.${client >> 8}.${client & 255}`;

describe('client keys', () => {
  it('the client key of an address is computed once', () => {
    const keys = clientKeys();
    expect(lookUp(keys, '2001:db8::1')).toEqual({ key: '2001:db8::/64', isCached: false });
    expect(lookUp(keys, '2001:db8::1')).toEqual({ key: '2001:db8::/64', isCached: true });
    expect(lookUp(keys, '2001:db8:1::1')).toEqual({ key: '2001:db8:1::/64', isCached: false });
  });

  it('client keys are cached for at most 4,096 addresses', () => {
    const keys = clientKeys();
    for (let client = 0; client < 4096; client++) lookUp(keys, addressOf(client));
    expect(lookUp(keys, addressOf(0)).isCached).toBe(true);
    expect(lookUp(keys, addressOf(4095)).isCached).toBe(true);
    expect(lookUp(keys, addressOf(4096))).toEqual({ key: '10.0.16.0', isCached: false });
    expect(lookUp(keys, addressOf(0))).toEqual({ key: '10.0.0.0', isCached: false });
    expect(lookUp(keys, addressOf(4096)).isCached).toBe(true);
  });

  it('client keys are cached separately for different IPv6 prefixes', () => {
    const [narrow, wide] = [clientKeys(), clientKeys({ ipv6Prefix: 48 })];
    for (let request = 0; request < 3; request++) {
      expect(lookUp(narrow, '2001:db8:1:2::3').key).toBe('2001:db8:1:2::/64');
      expect(lookUp(wide, '2001:db8:1:2::3').key).toBe('2001:db8:1::/48');
    }
  });

  it('client keys are not cached behind a trusted proxy, whose clients share an address', () => {
    const keys = clientKeys({ trustProxy: 1, onWarning: () => {} });
    for (let client = 0; client < 600; client++) {
      const header = () => addressOf(client);
      expect(keys.of({ socketAddress: '192.0.2.1', header })).toBe(addressOf(client));
    }
  });

  it('a forwarding header that a cached client begins to send causes a warning', () => {
    const warnings: AddressWarning[] = [];
    const keys = clientKeys({ onWarning: (warning) => warnings.push(warning) });
    const keyWith = (header: () => string | undefined) =>
      keys.of({ socketAddress: '10.0.0.1', header });
    for (let request = 0; request < 3; request++) keyWith(() => undefined);
    expect(warnings).toEqual([]);
    for (let request = 0; request < 3; request++) keyWith(() => 'for=1.1.1.1');
    expect(warnings.map(({ code }) => code)).toEqual(['WARN_FORWARDED_IGNORED']);
  });
});
