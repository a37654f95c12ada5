/** One client is one key in every spelling, and two clients are two: checked against ipaddr.js. */
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

/** Groups with many zeros and ones among them, where spellings and borders are. */
const group = fc.oneof(
  fc.constantFrom(0, 0, 0, 1, 0xffff, 0x8000, 0x64, 0xff9b, 0x2002),
  fc.integer({ min: 0, max: 0xffff }),
);
const groups = (count: number) => fc.array(group, { minLength: count, maxLength: count });
const behind = (...start: number[]) =>
  groups(8 - start.length).map((rest) => [...start, ...rest] as readonly number[]);

/** The bits of an address as eight groups, often in a range that has a rule of its own. */
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

/** Runs of zeros that `::` may stand for: any, not only the longest. */
function zeroRuns(words: readonly string[]): [number, number][] {
  const runs: [number, number][] = [];
  for (let from = 0; from < words.length; from++) {
    for (let to = from + 1; to <= words.length; to++) {
      if (!/^0+$/.test(words[to - 1])) break;
      runs.push([from, to]);
    }
  }
  return runs;
}

interface Manner {
  readonly upper: readonly boolean[];
  readonly padding: readonly number[];
  readonly hasQuad: boolean;
  readonly isPlain: boolean;
  /** Which of the possible runs of zeros is shortened; none if it is out of range. */
  readonly run: number;
  readonly zone: string;
}

const manners: fc.Arbitrary<Manner> = fc.record({
  upper: fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
  padding: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 8, maxLength: 8 }),
  hasQuad: fc.boolean(),
  isPlain: fc.boolean(),
  run: fc.nat(40),
  zone: fc.constantFrom('', '', '', '%eth0', '%1', '%25en0'),
});

/** One of the many spellings of an address. */
function spell(bits: readonly number[], manner: Manner): string {
  if (manner.isPlain && isMapped(bits)) return quadOf(bits.slice(6));
  const words = bits.map((each, index) => {
    const hex = each.toString(16).padStart(manner.padding[index], '0');
    return manner.upper[index] ? hex.toUpperCase() : hex;
  });
  if (manner.hasQuad) words.splice(6, 2, quadOf(bits.slice(6)));
  const run = zeroRuns(words)[manner.run];
  if (!run) return words.join(':') + manner.zone;
  const [left, right] = [words.slice(0, run[0]), words.slice(run[1])];
  return `${left.join(':')}::${right.join(':')}${manner.zone}`;
}

const bytesOf = (bits: readonly number[]): number[] =>
  bits.flatMap((each) => [each >> 8, each & 255]);

/** Who the client is, as ipaddr.js sees the bits: an independent way to the same answer. */
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

describe('an address', () => {
  const two = fc.tuple(addresses, manners, manners, prefixes);

  holds('has the key that ipaddr.js finds, in every spelling', two, ([bits, one, two, prefix]) => {
    const key = clientOf(bits, prefix);
    for (const manner of [one, two]) {
      const text = spell(bits, manner);
      // The spelling itself is right: ipaddr.js reads the same bits from it, but for `::1.2.3.4`,
      // which it takes for `::ffff:1.2.3.4`.
      const plain = text.replace(/%.*/, '');
      if (!/^::\d+\./.test(plain)) {
        const read = ipaddr.process(plain).toByteArray();
        expect(read).toEqual(bytesOf(bits).slice(-read.length));
      }
      expect(addressKey(text, prefix)).toBe(key);
    }
  });

  const near = fc.tuple(addresses, fc.nat(127), manners, manners, prefixes);

  holds('is one client with another exactly if ipaddr.js says so', near, ([bits, bit, ...more]) => {
    const [one, two, prefix] = more;
    const other = flipped(bits, bit);
    const isOne = clientOf(bits, prefix) === clientOf(other, prefix);
    const keys = [addressKey(spell(bits, one), prefix), addressKey(spell(other, two), prefix)];
    expect(keys[0] === keys[1]).toBe(isOne);
  });

  holds(
    'is not another one far away, either',
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

describe('text', () => {
  const pieces = fc.constantFrom(
    ...['0', '1', '00', 'f', 'ffff', '10000', '255', '256', '.', '.', '.', ':', ':', ':', '::'],
    ...['1.2.3.4', '::ffff:', '%', '%eth0', ' ', '-', 'x', '[', ']', '/', '0x1', '01'],
  );
  const texts = fc.oneof(
    fc.array(pieces, { maxLength: 12 }).map((list) => list.join('')),
    fc.string({ maxLength: 20 }),
    // An address in which one character has become another.
    fc.tuple(addresses, manners, fc.nat(50), pieces).map(([bits, manner, at, piece]) => {
      const text = spell(bits, manner);
      return text.slice(0, at) + piece + text.slice(at + 1);
    }),
  );

  holds('is an address exactly if Node says so', texts, (text) => {
    expect(addressKey(text) !== undefined).toBe(isIP(text) !== 0);
  });
});

describe('what a client writes into the header', () => {
  const junk = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, '')),
    fc
      .array(fc.constantFrom('"', '\\', ',', ';', 'for=', '9.9.9.9', '[', ']', ' ', '='), {
        maxLength: 30,
      })
      .map((list) => list.join('')),
  );
  const proxies = fc.array(fc.integer({ min: 2, max: 254 }), { maxLength: 5 });
  const requests = fc.tuple(junk, addresses, manners, proxies, fc.boolean());

  holds('never changes who it is', requests, ([forged, bits, manner, hops, isForwarded]) => {
    const node = (text: string) => (text.includes(':') ? `"[${text}]"` : text);
    const element = (text: string) => (isForwarded ? `host="\\",";for=${node(text)}` : text);
    const client = { ...manner, zone: '' };
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
  });
});
