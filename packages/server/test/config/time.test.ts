import { describe, expect, it } from 'vitest';
import { closestName } from '../../src/config/did-you-mean.ts';
import { parseTime } from '../../src/config/parse-time.ts';

describe('parseTime', () => {
  it.each([
    ['2031-01-31T12:00:00Z', '2031-01-31T12:00:00.000Z'],
    ['2031-01-31T12:00:00.1234Z', '2031-01-31T12:00:00.123Z'],
    ['2031-01-31t12:00:00+01:30', '2031-01-31T10:30:00.000Z'],
    ['2031-01-31 12:00:00 -0500', '2031-01-31T17:00:00.000Z'],
    ['2031-01-31 12:00:00', '2031-01-31T12:00:00.000Z'],
    ['2031-01-31', '2031-01-31T00:00:00.000Z'],
    ['2032-02-29', '2032-02-29T00:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
  ])('parseTime parses %s as %s', (text, iso) => {
    expect(parseTime(text)).toBe(Date.parse(iso));
  });

  it.each([
    ...['', 'now', '2031', '2031-1-1', '2031-13-01', '2031-00-10', '2031-02-29', '2031-04-31'],
    ...[
      '2031-01-01T24:00:00Z',
      '2031-01-01T12:60:00Z',
      '2031-01-01T12:00:60Z',
      '2031-01-01T12:00Z',
    ],
    ...['2031-01-01T12:00:00+24:00', '1969-12-31', '2031-01-01T12:00:00Z.', ' 2031-01-01'],
  ])('parseTime rejects %j', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });
});

describe('closestName', () => {
  const known = ['limit', 'window', 'algorithm', 'burst'];

  it.each([
    ['windw', 'window'],
    ['wnidow', 'window'],
    ['Limit', 'limit'],
    ['limits', 'limit'],
    ['algoritm', 'algorithm'],
    ['busrt', 'burst'],
  ])('the closest name to %s is %s', (name, expected) => {
    expect(closestName(name, known)).toBe(expected);
  });

  it.each(['interval', 'x', '', 'limitation', 'w'.repeat(1000)])(
    'the name %s has no close name',
    (name) => {
      expect(closestName(name, known)).toBeUndefined();
    },
  );
});
