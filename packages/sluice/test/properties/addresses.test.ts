/** Each client has one key in every spelling of its address: compared with ipaddr.js. */
import { isIP } from 'node:net';
import fc from 'fast-check';
import ipaddr from 'ipaddr.js';
import { describe, expect, it } from 'vitest';
import { type AddressWarning, addressKey, clientAddress } from '../../src/http/client-address.ts';
import { RUNS } from './traces.ts';

const TIMEOUT_MS = 600_000;

function holds<T>(name: string, arbitrary: fc.Arbitrary<T>, property: (value: T) => void): void {
  it(
    name,
    () => {
      fc.assert(fc.property(arbitrary, property), { numRuns: RUNS });
      if (RUNS > 1000) process.stderr.write(`addresses: ${name}: ${RUNS} cases\n`);
    },
    TIMEOUT_MS,
  );
}

/** Groups with many zeros and ones, which have several spellings. */
const group = fc.oneof(
  fc.constantFrom(0, 0, 0, 1, 0xffff, 0x8000, 0x64, 0xff9b, 0x2002),
  fc.integer({ min: 0, max: 0xffff }),
);
const groups = (count: number) => fc.array(group, { minLength: count, maxLength: count });
const behind = (...start: number[]) =>
  groups(8 - start.length).map((rest) => [...start, ...rest] as readonly number[]);

/** The bits of an address as eight groups, often in a special range. */
const addresses = fc.oneof(
  behind(),
  behind(0, 0, 0, 0, 0, 0xffff),
  behind(0x64, 0xff9b, 0, 0, 0, 0),
  behind(0x64, 0xff9b, 1),
  behind(0x2002),
  behind(0, 0, 0, 0, 0, 0),
  behind(0, 0, 0, 0, 0xffff, 0),
  behind(0x2001, 0xdb8, 0, 1),
  behind(0xfe80, 0, 0, 0),
);
const prefixes = fc.oneof(fc.constantFrom(48, 56, 64, 128), fc.integer({ min: 32, max: 128 }));

const isMapped = (bits: readonly number[]): boolean =>
  bits.slice(0, 5).every((each) => each === 0) && bits[5] === 0xffff;
const quadOf = ([high, low]: readonly number[]): string =>
  [high >> 8, high & 255, low >> 8, low & 255].join('.');

/** Returns all runs of zeros that `::` may replace. */
function zeroRuns(parts: readonly string[]): [number, number][] {
  const runs: [number, number][] = [];
  for (let from = 0; from < parts.length; from++) {
    for (let to = from + 1; to <= parts.length; to++) {
      if (!/^0+$/.test(parts[to - 1])) break;
      runs.push([from, to]);
    }
  }
  return runs;
}

interface Spelling {
  readonly upper: readonly boolean[];
  readonly padding: readonly number[];
  readonly hasQuad: boolean;
  readonly isPlain: boolean;
  /** The index of the run of zeros to shorten. None if it is out of range. */
  readonly run: number;
  readonly zone: string;
}

const spellings: fc.Arbitrary<Spelling> = fc.record({
  upper: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
  padding: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 8, maxLength: 8 }),
  hasQuad: fc.boolean(),
  isPlain: fc.boolean(),
  run: fc.nat(40),
  zone: fc.constantFrom('', '', '', '%eth0', '%1', '%25en0'),
});

/** Returns an address in one of its spellings. */
function spell(bits: readonly number[], spelling: Spelling): string {
  if (spelling.isPlain && isMapped(bits)) return quadOf(bits.slice(6));
  const parts = bits.map((each, index) => {
    const hex = each.toString(16).padStart(spelling.padding[index], '0');
    return spelling.upper[index] ? hex.toUpperCase() : hex;
  });
  if (spelling.hasQuad) parts.splice(6, 2, quadOf(bits.slice(6)));
  const run = zeroRuns(parts)[spelling.run];
  if (!run) return parts.join(':') + spelling.zone;
  const [left, right] = [parts.slice(0, run[0]), parts.slice(run[1])];
  return `${left.join(':')}::${right.join(':')}${spelling.zone}`;
}

const bytesOf = (bits: readonly number[]): number[] =>
  bits.flatMap((each) => [each >> 8, each & 255]);

/** Returns the key of a client, computed by ipaddr.js. */
function clientOf(bits: readonly number[], prefix: number): string {
  const bytes = bytesOf(bits);
  const address = new ipaddr.IPv6(bytes);
  const isIn = (network: string) => address.match(ipaddr.IPv6.parseCIDR(network));
  if (isIn('::ffff:0:0/96')) return address.toIPv4Address().toString();
  if (isIn('64:ff9b::/96')) return new ipaddr.IPv4(bytes.slice(12)).toString();
  const length = isIn('2002::/16') ? Math.min(prefix, 48) : prefix;
  const start = ipaddr.IPv6.networkAddressFromCIDR(`${address.toNormalizedString()}/${length}`);
  return `${start.toRFC5952String()}/${length}`;
}

const flipped = (bits: readonly number[], bit: number): readonly number[] =>
  bits.map((each, index) => (index === bit >> 4 ? each ^ (0x8000 >> (bit & 15)) : each));

describe('addresses', () => {
  const two = fc.tuple(addresses, spellings, spellings, prefixes);

  holds(
    'addressKey returns the key that ipaddr.js computes, for every spelling',
    two,
    ([bits, one, two, prefix]) => {
      const key = clientOf(bits, prefix);
      for (const spelling of [one, two]) {
        const text = spell(bits, spelling);
        // The spelling is valid: ipaddr.js parses the same bits, except for `::1.2.3.4`, which it
        // parses as `::ffff:1.2.3.4`.
        const plain = text.replace(/%.*/, '');
        if (!/^::\d+\./.test(plain)) {
          const read = ipaddr.process(plain).toByteArray();
          expect(read).toEqual(bytesOf(bits).slice(-read.length));
        }
        expect(addressKey(text, prefix)).toBe(key);
      }
    },
  );

  const near = fc.tuple(addresses, fc.nat(127), spellings, spellings, prefixes);

  holds(
    'two similar addresses have equal keys only if ipaddr.js computes equal keys',
    near,
    ([bits, bit, ...more]) => {
      const [one, two, prefix] = more;
      const other = flipped(bits, bit);
      const isOne = clientOf(bits, prefix) === clientOf(other, prefix);
      const keys = [addressKey(spell(bits, one), prefix), addressKey(spell(other, two), prefix)];
      expect(keys[0] === keys[1]).toBe(isOne);
    },
  );

  holds(
    'two random addresses have equal keys only if ipaddr.js computes equal keys',
    fc.tuple(addresses, addresses, prefixes),
    ([one, other, prefix]) => {
      const isOne = clientOf(one, prefix) === clientOf(other, prefix);
      const keys = [one, other].map((bits) =>
        addressKey(ipaddr.fromByteArray(bytesOf(bits)).toString(), prefix),
      );
      expect(keys[0] === keys[1]).toBe(isOne);
    },
  );
});

describe('addressKey', () => {
  const pieces = fc.constantFrom(
    ...['0', '1', '00', 'f', 'ffff', '10000', '255', '256', '.', '.', '.', ':', ':', ':', '::'],
    ...['1.2.3.4', '::ffff:', '%', '%eth0', ' ', '-', 'x', '[', ']', '/', '0x1', '01'],
  );
  const texts = fc.oneof(
    fc.array(pieces, { maxLength: 12 }).map((list) => list.join('')),
    fc.string({ maxLength: 20 }),
    // An address with one character replaced.
    fc.tuple(addresses, spellings, fc.nat(50), pieces).map(([bits, spelling, at, piece]) => {
      const text = spell(bits, spelling);
      return text.slice(0, at) + piece + text.slice(at + 1);
    }),
  );

  holds('addressKey accepts exactly the addresses that Node accepts', texts, (text) => {
    expect(addressKey(text) !== undefined).toBe(isIP(text) !== 0);
  });
});

describe('forged forwarding headers', () => {
  const junk = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, '')),
    fc
      .array(fc.constantFrom('"', '\\', ',', ';', 'for=', '9.9.9.9', '[', ']', ' ', '='), {
        maxLength: 30,
      })
      .map((list) => list.join('')),
  );
  const proxies = fc.array(fc.integer({ min: 2, max: 254 }), { maxLength: 5 });
  const requests = fc.tuple(junk, addresses, spellings, proxies, fc.boolean());

  holds(
    'a forged header never changes the key of the client',
    requests,
    ([forged, bits, spelling, hops, isForwarded]) => {
      const node = (text: string) => (text.includes(':') ? `"[${text}]"` : text);
      const element = (text: string) => (isForwarded ? `host="\\",";for=${node(text)}` : text);
      const client = { ...spelling, zone: '' };
      const entries = [spell(bits, client), ...hops.map((each) => `198.18.0.${each}`)];
      const list = [forged, ...entries.map(element)].join(', ');
      const forwardedHeader = isForwarded ? 'forwarded' : 'x-forwarded-for';
      const key = clientOf(bits, 64);
      fc.pre(!key.startsWith('198.18.0.'));
      const onWarning = ({ message }: AddressWarning) => expect.unreachable(message);
      for (const trustProxy of [entries.length, ['198.18.0.0/24']]) {
        const read = clientAddress({ trustProxy, forwardedHeader, onWarning });
        expect(read('198.18.0.1', () => list)).toBe(key);
      }
    },
  );
});
