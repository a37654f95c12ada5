import { afterEach, describe, expect, it, vi } from 'vitest';
import { contains, readNetworks } from '../../src/http/address-networks.ts';
import {
  type AddressOptions,
  type AddressWarning,
  addressKey,
  clientAddress,
  clientKeys,
} from '../../src/http/client-address.ts';

type Headers = Readonly<Record<string, string>>;

/** Returns a key function and the warnings that it emits. */
function open(options: AddressOptions = {}) {
  const warnings: AddressWarning[] = [];
  const read = clientAddress({ onWarning: (warning) => warnings.push(warning), ...options });
  const key = (socket: string | undefined, headers: Headers = {}): string =>
    read(socket, (name) => headers[name]);
  return { key, warnings, codes: () => warnings.map(({ code }) => code) };
}

/** Returns the key of a request from 10.0.0.1 with this X-Forwarded-For. */
const xff = (trustProxy: number | readonly string[], list: string): string =>
  open({ trustProxy }).key('10.0.0.1', { 'x-forwarded-for': list });

const PROXIES = ['10.0.0.0/8'];

describe('addressKey', () => {
  it.each([
    ['1.2.3.4', '1.2.3.4'],
    ['0.0.0.0', '0.0.0.0'],
    ['255.255.255.255', '255.255.255.255'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::ffff:102:304', '1.2.3.4'],
    ['::FFFF:0102:0304', '1.2.3.4'],
    ['0:0:0:0:0:ffff:1.2.3.4', '1.2.3.4'],
    ['0000:0000:0000:0000:0000:ffff:0102:0304', '1.2.3.4'],
    ['::ffff:1.2.3.4%eth0', '1.2.3.4'],
    ['64:ff9b::1.2.3.4', '1.2.3.4'],
    ['64:ff9b::102:304', '1.2.3.4'],
    ['64:ff9b:1::102:304', '64:ff9b:1::/64'],
    ['2002:102:304:5:6:7:8:9', '2002:102:304::/48'],
    ['2001:db8:0:1::', '2001:db8:0:1::/64'],
    ['2001:DB8:0000:0001:ffff:ffff:ffff:ffff', '2001:db8:0:1::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['1::', '1::/64'],
    ['::', '::/64'],
    ['::1', '::/64'],
    ['::1.2.3.4', '::/64'],
    ['::ffff:0:1.2.3.4', '::/64'],
    ['fe80::1', 'fe80::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['fe80::1%25eth0', 'fe80::/64'],
  ])('addressKey(%s) returns %s', (text, key) => {
    expect(addressKey(text)).toBe(key);
  });

  it.each([
    ['2001:db8::1', 128, '2001:db8::1/128'],
    ['2001:0:0:1:0:0:0:1', 128, '2001:0:0:1::1/128'],
    ['2001:db8:0:1:1:1:1:1', 128, '2001:db8:0:1:1:1:1:1/128'],
    ['2001:0:0:1:1:0:0:1', 128, '2001::1:1:0:0:1/128'],
    ['::1', 128, '::1/128'],
    ['2001:db8:0:1ff::1', 56, '2001:db8:0:100::/56'],
    ['2001:db8:0:1ff::1', 63, '2001:db8:0:1fe::/63'],
    ['2001:db8:ffff::1', 33, '2001:db8:8000::/33'],
    ['2001:db8:ffff::1', 32, '2001:db8::/32'],
    ['2002:102:304:5::1', 128, '2002:102:304::/48'],
    ['2002:102:304:5::1', 40, '2002:102:300::/40'],
    ['1.2.3.4', 32, '1.2.3.4'],
  ])('addressKey(%s, %i) returns %s', (text, bits, key) => {
    expect(addressKey(text, bits)).toBe(key);
  });

  it('the IPv4 and the IPv6 loopback address have different keys', () => {
    expect(addressKey('::1', 128)).not.toBe(addressKey('127.0.0.1', 128));
  });

  it.each([
    ...['', ' ', 'unknown', '_hidden', 'localhost', 'a.b.c.d'],
    ...['1.2.3', '1.2.3.4.5', '1.2.3.', '.1.2.3', '1..2.3', '1.2.3.256', '1.2.3.-1', '1.2.3.+4'],
    ...['01.2.3.4', '1.2.3.04', '1.2.3.00', '0x1.2.3.4', '0x01020304', '16909060', '1.2.772'],
    ...[' 1.2.3.4', '1.2.3.4 ', '1.2.3.4\n', '1.2.3.4:80', '1.2.3.4%eth0', '1.2.3.4/32'],
    ...['١.٢.٣.٤', '1。2。3。4', '1,2.3.4'],
    ...[':', ':::', '1:::2', '1::2::3', ':1', '1:', ':1:2:3:4:5:6:7', '1:2:3:4:5:6:7:'],
    ...['1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '1::2:3:4:5:6:7:8', '1:2:3:4::5:6:7:8'],
    ...[
      '12345::',
      '00001::',
      'g::',
      '::-1',
      '::0x1',
      ':: 1',
      '::1 ',
      '::1/128',
      '[::1]',
      '[::1]:80',
    ],
    ...[
      '::1.2.3',
      '::1.2.3.256',
      '::01.2.3.4',
      '1.2.3.4::',
      '::1.2.3.4:5',
      '1:2:3:4:5:6:7:1.2.3.4',
    ],
    ...['fe80::1%', 'fe80::1%eth0%eth1', 'fe80::1%e th', '%eth0', `::1%${'e'.repeat(200)}`],
    ...['1'.repeat(10_000), `${':'.repeat(10_000)}1`],
  ])('addressKey returns undefined for %j', (text) => {
    expect(addressKey(text)).toBeUndefined();
  });

  it('addressKey returns undefined for values that are not strings', () => {
    for (const value of [undefined, null, 16909060, ['1.2.3.4']]) {
      expect(addressKey(value as never)).toBeUndefined();
    }
  });

  it.each([0, 1, 31, 129, 64.5, Number.NaN, '64', null])(
    'addressKey rejects a prefix of %j bits',
    (bits) => {
      expect(() => addressKey('::1', bits as never)).toThrow(
        expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
      );
    },
  );
});

describe('without trustProxy', () => {
  it('without trustProxy, the client is the socket address, regardless of headers', () => {
    const { key } = open();
    expect(key('203.0.113.7')).toBe('203.0.113.7');
    expect(key('::ffff:203.0.113.7', { 'x-forwarded-for': '1.1.1.1' })).toBe('203.0.113.7');
    expect(key('2001:db8::1', { forwarded: 'for=1.1.1.1' })).toBe('2001:db8::/64');
  });

  it.each([
    ['x-forwarded-for', '1.1.1.1'],
    ['forwarded', 'for=1.1.1.1'],
  ])('without trustProxy, one warning about an ignored %s names the fix', (name, value) => {
    const { key, warnings, codes } = open();
    key('10.0.0.1');
    expect(codes()).toEqual([]);
    key('10.0.0.1', { [name]: value });
    key('10.0.0.2', { 'x-forwarded-for': '1.1.1.1', forwarded: 'for=1.1.1.1' });
    expect(codes()).toEqual(['WARN_FORWARDED_IGNORED']);
    expect(warnings[0].message).toContain(`from 10.0.0.1 has the header ${name}`);
    expect(warnings[0].message).toContain('set trustProxy');
  });

  it('without trustProxy, a proxy that appears after many requests causes a warning', () => {
    const { key, codes } = open();
    for (let request = 0; request < 10_000; request++) key('10.0.0.1');
    const forwarded = { 'x-forwarded-for': '1.1.1.1' };
    expect(codes()).toEqual([]);
    expect(key('10.0.0.1', forwarded)).toBe('10.0.0.1');
    expect(codes()).toEqual(['WARN_FORWARDED_IGNORED']);
  });
});

describe('trustProxy as a number', () => {
  it.each([
    [1, '1.1.1.1', '1.1.1.1'],
    [1, '9.9.9.9, 1.1.1.1', '1.1.1.1'],
    [2, '1.1.1.1, 10.0.0.2', '1.1.1.1'],
    [2, '9.9.9.9, 1.1.1.1, 10.0.0.2', '1.1.1.1'],
    [3, '9.9.9.9, 8.8.8.8, 1.1.1.1, 10.0.0.3, 10.0.0.2', '1.1.1.1'],
    // Fewer addresses than proxies: the client is the leftmost.
    [2, '1.1.1.1', '1.1.1.1'],
    [5, '1.1.1.1, 10.0.0.2', '1.1.1.1'],
    // An invalid address ends the search: the client is the proxy that reported it.
    [1, 'unknown', '10.0.0.1'],
    [1, '1.1.1.1, ', '10.0.0.1'],
    [2, 'unknown, 10.0.0.2', '10.0.0.2'],
    [3, '9.9.9.9, unknown, 10.0.0.2', '10.0.0.2'],
    [2, '1.1.1.1,,10.0.0.2', '10.0.0.2'],
    [2, '9.9.9.9, 010.0.0.9, 10.0.0.2', '10.0.0.2'],
  ])('with trustProxy %i and the header %j, the client is %s', (proxies, list, key) => {
    expect(xff(proxies, list)).toBe(key);
  });

  it('fewer addresses than a numeric trustProxy cause one warning', () => {
    const { key, warnings, codes } = open({ trustProxy: 2 });
    key('10.0.0.1', { 'x-forwarded-for': '9.9.9.9, 1.1.1.1, 10.0.0.2' });
    key('10.0.0.1', { 'x-forwarded-for': '1.1.1.1, 10.0.0.2' });
    expect(codes()).toEqual([]);
    for (const _ of [1, 2]) key('10.0.0.1', { 'x-forwarded-for': '1.1.1.1' });
    expect(codes()).toEqual(['WARN_FORWARDED_SHORT']);
    expect(warnings[0].message).toContain('Set trustProxy to the number of proxies');
  });
});

describe('trustProxy as networks', () => {
  it.each([
    ['1.1.1.1', '1.1.1.1'],
    ['9.9.9.9, 1.1.1.1', '1.1.1.1'],
    ['9.9.9.9, 1.1.1.1, 10.0.0.3, 10.255.255.255', '1.1.1.1'],
    ['9.9.9.9, 1.1.1.1, ::ffff:10.0.0.2', '1.1.1.1'],
    ['9.9.9.9, 1.1.1.1, ::ffff:a00:2', '1.1.1.1'],
    // All addresses are trusted, so the client is the leftmost.
    ['10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['unknown', '10.0.0.1'],
    ['1.1.1.1, unknown, 10.0.0.2', '10.0.0.2'],
    ['unknown, 1.1.1.1, 10.0.0.2', '1.1.1.1'],
    // The NAT64 form of a proxy's address is not trusted.
    ['9.9.9.9, 64:ff9b::10.0.0.2', '10.0.0.2'],
  ])('with trusted networks and the header %j, the client is %s', (list, key) => {
    expect(xff(PROXIES, list)).toBe(key);
  });

  it('an untrusted peer is the client, and its headers are ignored with a warning', () => {
    const { key, warnings, codes } = open({ trustProxy: PROXIES });
    expect(key('11.0.0.1')).toBe('11.0.0.1');
    expect(codes()).toEqual([]);
    expect(key('11.0.0.1', { 'x-forwarded-for': '1.1.1.1' })).toBe('11.0.0.1');
    expect(codes()).toEqual(['WARN_FORWARDED_IGNORED']);
    expect(warnings[0].message).toContain('or to their networks');
  });

  it.each([
    [['loopback'], ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'], ['::2', '128.0.0.1']],
    [['private'], ['10.1.1.1', '172.16.0.1', '172.31.0.1', 'fd00::1'], ['172.32.0.1', 'fe00::1']],
    [['192.0.2.1'], ['192.0.2.1', '::ffff:c000:201'], ['192.0.2.0', '192.0.2.2']],
    [['192.0.2.128/25'], ['192.0.2.128', '192.0.2.255'], ['192.0.2.127', '192.0.3.0']],
    [['2001:db8::/33'], ['2001:db8:7fff::1'], ['2001:db8:8000::1', '2001:db9::1']],
    [['::ffff:10.0.0.0/104'], ['10.255.0.1'], ['11.0.0.0', '::10.0.0.1']],
  ])('trustProxy %j trusts %j but not %j', (trustProxy, inside, outside) => {
    const headers = { 'x-forwarded-for': '203.0.113.9' };
    for (const socket of inside) {
      expect(open({ trustProxy }).key(socket, headers)).toBe('203.0.113.9');
    }
    for (const socket of outside) {
      expect(open({ trustProxy }).key(socket, headers)).toBe(addressKey(socket));
    }
  });

  it('addressOf returns addresses that match network lists, also behind NAT64', () => {
    const read = clientKeys({ trustProxy: PROXIES, onWarning: () => {} }).addressOf;
    const denied = readNetworks(['1.1.1.0/24', '2001:db8::7', '2002:102:304:5::/64']);
    const isDenied = (list: string) =>
      contains(denied, read({ socketAddress: '10.0.0.1', header: () => list })!);
    for (const list of ['1.1.1.1', '64:ff9b::1.1.1.1', '2001:db8::7', '2002:102:304:5::6']) {
      expect(isDenied(list)).toBe(true);
    }
    for (const list of ['1.1.2.1', '2001:db8::8', '2002:102:304:6::6']) {
      expect(isDenied(list)).toBe(false);
    }
    const socketAddress = '64:ff9b::1.1.1.1';
    expect(contains(denied, read({ socketAddress, header: () => undefined })!)).toBe(true);
  });

  it('readNetworks accepts networks of all addresses', () => {
    expect(readNetworks(['0.0.0.0/0', '::/0', 'loopback'])).toHaveLength(4);
  });
});

describe('a trusted proxy', () => {
  it.each([{ trustProxy: 1 }, { trustProxy: PROXIES }])(
    'if a trusted proxy sends no header, the proxy is the client, with a warning: %j',
    (options) => {
      const { key, warnings, codes } = open(options);
      for (const headers of [{}, {}, { 'x-forwarded-for': '' }, { forwarded: 'for=1.1.1.1' }]) {
        expect(key('10.0.0.1', headers)).toBe('10.0.0.1');
      }
      expect(codes()).toEqual(['WARN_FORWARDED_MISSING']);
      expect(warnings[0].message).toContain('proxy 10.0.0.1 has no header x-forwarded-for');
      expect(warnings[0].message).toContain('set forwardedHeader');
    },
  );

  it('a trusted proxy that sends an invalid address causes one warning', () => {
    const { key, warnings, codes } = open({ trustProxy: 2 });
    for (const _ of [1, 2]) key('10.0.0.1', { 'x-forwarded-for': 'unknown, 10.0.0.2' });
    expect(codes()).toEqual(['WARN_FORWARDED_UNREADABLE']);
    expect(warnings[0].message).toContain('The trusted proxy 10.0.0.2 wrote');
  });

  it('invalid addresses left of the client cause no warning', () => {
    const { key, codes } = open({ trustProxy: PROXIES });
    key('10.0.0.1', { 'x-forwarded-for': 'nonsense, 1.1.1.1, 10.0.0.2' });
    key('10.0.0.1', { 'x-forwarded-for': '10.0.0.3, 10.0.0.2' });
    expect(codes()).toEqual([]);
  });
});

describe('AddressOptions', () => {
  const errorOf = (options: unknown): unknown => {
    try {
      clientAddress(options as AddressOptions);
    } catch (error) {
      return error;
    }
    return undefined;
  };

  it.each([true, false, 0, -1, 1.5, 33, '1', 'loopback', null, [], {}, Number.NaN, () => true])(
    'trustProxy %j is rejected with the valid values',
    (trustProxy) => {
      expect(errorOf({ trustProxy })).toMatchObject({
        code: 'ERR_INVALID_OPTION',
        message: expect.stringMatching(
          /number of proxies.*\['10\.0\.0\.0\/8'\].*omit it to trust none/,
        ),
      });
    },
  );

  it.each([
    [['0.0.0.0/0']],
    [['::/0']],
    [['::/1']],
    [['2000::/3']],
    [['::ffff:0:0/96']],
    [['::ffff:0.0.0.0/96']],
    [['64:ff9b::/96']],
    [['0.0.0.0/1', '128.0.0.0/1']],
    [['128.0.0.0/2', '0.0.0.0/2', '10.0.0.0/8', '64.0.0.0/2', '192.0.0.0/3']],
    [['2000::/4', '3000::/5', '3800::/5']],
    [['loopback', '0.0.0.0/0']],
  ])('trustProxy with networks of all public addresses is rejected: %j', (trustProxy) => {
    expect(errorOf({ trustProxy })).toMatchObject({
      code: 'ERR_INVALID_OPTION',
      message: expect.stringMatching(/contains every public IPv4 or IPv6 address.*trustProxy: 1/),
    });
  });

  it.each([
    [['0.0.0.0/1']],
    [['0.0.0.0/1', '128.0.0.0/2', '192.0.0.0/4']],
    [['loopback', 'private', '2001:db8::/32', '100.64.0.0/10', 'fe80::/10']],
    [[...Array.from({ length: 250 }, (_, index) => `2001:db8:${index.toString(16)}::/48`)]],
  ])('trustProxy with networks of some public addresses is accepted: %j', (trustProxy) => {
    expect(errorOf({ trustProxy })).toBeUndefined();
  });

  it.each([
    ...['', 'everyone', 'Loopback', '10.0.0.0/33', '10.0.0.0/', '10.0.0.0/08', '10.0.0.0/-8'],
    ...['10.0.0.0/8/8', '10/8', '10.0.0/8', '::1/129', '10.0.0.0/255.0.0.0', ' 10.0.0.0/8'],
    ...['10.0.0.1/8', '2001:db8::1/32', 'fe80::%eth0/64', '[::1]', '10.0.0.1:80', 'constructor'],
    ...[10, null, undefined, ['10.0.0.0/8']],
  ])('the network %j is rejected', (network) => {
    expect(errorOf({ trustProxy: ['127.0.0.1', network] })).toMatchObject({
      code: 'ERR_INVALID_OPTION',
      message: expect.stringMatching(/network.*got/),
    });
  });

  it.each([
    { trustproxy: 1 },
    { forwardedHeader: 'x-real-ip' },
    { forwardedHeader: 'X-Forwarded-For' },
    { ipv6Prefix: 31 },
    { ipv6Prefix: 129 },
    { ipv6Prefix: '64' },
    { onWarning: 'console' },
    [],
    'loopback',
    null,
  ])('the address options %j are rejected', (options) => {
    expect(errorOf(options)).toMatchObject({ code: 'ERR_INVALID_OPTION' });
  });

  it('ipv6Prefix sets the number of bits in a key', () => {
    expect(open({ ipv6Prefix: 56 }).key('2001:db8:0:1ff::1')).toBe('2001:db8:0:100::/56');
    const { key } = open({ ipv6Prefix: 128, trustProxy: 1 });
    expect(key('10.0.0.1', { 'x-forwarded-for': '2001:DB8::0:1' })).toBe('2001:db8::1/128');
  });
});

describe('without onWarning', () => {
  afterEach(() => void vi.restoreAllMocks());

  it('without onWarning, process.emitWarning receives message and code', () => {
    const emit = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const read = clientAddress();
    for (const _ of [1, 2]) read('10.0.0.1', () => '1.1.1.1');
    expect(emit).toHaveBeenCalledOnce();
    expect(emit).toHaveBeenCalledWith(expect.stringContaining('set trustProxy'), {
      type: 'SluiceWarning',
      code: 'WARN_FORWARDED_IGNORED',
    });
  });
});
