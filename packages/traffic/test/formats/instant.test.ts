/** Time formats of server logs. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEpoch, readTime } from '../../src/formats/instant.ts';
import { RUNS } from '../reading.ts';

const NOON = Date.parse('2026-10-10T11:55:36Z');

describe('readTime and readEpoch', () => {
  it.each([
    ['10/Oct/2026:13:55:36 +0200', NOON],
    ['10/Oct/2026:11:55:36 +0000', NOON],
    ['10/Oct/2026:02:25:36 -0930', NOON],
    ['10/Oct/2026:11:55:36.123 +0000', NOON + 123],
    ['10/Oct/2026:11:55:36.123999 +0000', NOON + 123],
    ['2026-10-10T11:55:36Z', NOON],
    ['2026-10-10T11:55:36.1Z', NOON + 100],
    ['2026-10-10T11:55:36.123456789Z', NOON + 123],
    ['2026-10-10T13:55:36+02:00', NOON],
    ['2026-10-10T13:55:36.5+0200', NOON + 500],
    ['2026-10-10T13:55:36+02', NOON],
    ['2026-10-10 11:55:36', NOON],
    ['2026-10-10 11:55:36,250', NOON + 250],
    ['2026-10-10 13:55:36 +0200', NOON],
    ['2026-10-10 11:55:36 UTC', NOON],
    ['2026/10/10 11:55:36.007', NOON + 7],
    ['2026-10-10T11:55Z', NOON - 36_000],
    ['1791633336', NOON],
    ['1791633336.123', NOON + 123],
    ['1791633336123', NOON + 123],
    ['1791633336123456', NOON + 123],
    ['1791633336123456789', NOON + 123],
    ['31/Dec/2026:23:59:60 +0000', Date.parse('2027-01-01T00:00:00Z')],
    ['29/Feb/2028:00:00:00 +0000', Date.parse('2028-02-29T00:00:00Z')],
    ['01/Mar/2100:00:00:00 +0000', Date.parse('2100-03-01T00:00:00Z')],
  ])('readTime parses %s', (text, timeMs) => {
    expect(readTime(text)).toBe(timeMs);
  });

  it.each([
    ...['', '-', 'noon', '0', '-1', '0.0', '1e9', '1791633336.', '99999999999999999999'],
    ...['10/Oct/2026', '10/Oct/2026:13:55 0200', '10/Oct/2026:13:55:36 0200'],
    ...['10/oct/2026:13:55:36 +0200', '1/Oct/2026:13:55:36 +0200', '10/Oct/26:13:55:36 +0200'],
    ...['31/Apr/2026:13:55:36 +0200', '00/Oct/2026:13:55:36 +0200', '29/Feb/2100:00:00:00 +0000'],
    ...['10/Oct/2026:24:00:00 +0000', '10/Oct/2026:13:60:36 +0200', '10/Oct/2026:13:55:61 +0200'],
    ...['10/Oct/2026:13:55:36 +9900', '10/Oct/2026:13:55:36 +0260', '10/Oct/2026:13:55:36. +0200'],
    ...[
      '10/Oct/2026:13:55:36 +02000',
      '10/Oct/2026:13:55:36 +0200 ',
      ' 10/Oct/2026:13:55:36 +0200',
    ],
    ...['2026-10-10', '2026-10-10T', '2026-13-10T11:55:36Z', '2026-02-30T11:55:36Z'],
    ...[
      '2026-10-10T25:55:36Z',
      '2026-10/10T11:55:36Z',
      '2026-10-10T11:55:36z+1',
      '2026-10-10x11:55',
    ],
    ...['2026-10-10T11:55:36 ', '2026-10-10T11:55:36.Z', '2026-10-10T11:55:36+2'],
  ])('readTime rejects `%s`', (text) => {
    expect(readTime(text)).toBeUndefined();
  });

  it('every form of any time is parsed to the millisecond', () => {
    const moments = fc.integer({ min: 1, max: Date.parse('2399-12-31T23:59:59.999Z') });
    fc.assert(
      fc.property(moments, (timeMs) => {
        const text = new Date(timeMs).toISOString();
        expect(readTime(text)).toBe(timeMs);
        expect(readTime(text.replace('Z', '+00:00'))).toBe(timeMs);
        if (timeMs >= 1e11) expect(readEpoch(timeMs)).toBe(timeMs);
        if (timeMs < 1e14) expect(readEpoch(timeMs / 1000)).toBe(timeMs);
      }),
      { numRuns: RUNS },
    );
  });

  it('readEpoch is exact for fractions of a second that doubles cannot represent', () => {
    for (let ms = 0; ms < 1000; ms++) expect(readEpoch(1_791_633_336 + ms / 1000)).toBe(NOON + ms);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, 0, -1, 1e300])('readEpoch rejects %d', (value) => {
    expect(readEpoch(value)).toBeUndefined();
  });
});
