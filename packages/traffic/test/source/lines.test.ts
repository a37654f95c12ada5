/** LineSplitter with any chunk boundaries. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LineSplitter, MAX_LINE_BYTES } from '../../src/lines.ts';
import { RUNS } from '../reading.ts';

/** Splits bytes that come in pieces of at most `size`. */
function split(content: string | Uint8Array, size = Number.POSITIVE_INFINITY): string[] {
  const bytes = Buffer.from(content as string);
  const splitter = new LineSplitter();
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += size) {
    lines.push(...splitter.add(bytes.subarray(at, at + size)));
  }
  return [...lines, ...splitter.end()];
}

describe('lines', () => {
  it.each([
    ['', []],
    ['a', ['a']],
    ['a\n', ['a']],
    ['\n', ['']],
    ['\n\n', ['', '']],
    ['a\nb', ['a', 'b']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['a\r\nb\r', ['a', 'b']],
    ['a\rb\n', ['a\rb']],
    ['\uFEFFa\n\uFEFFb', ['a', '\uFEFFb']],
    ['ключ\n語', ['ключ', '語']],
  ])('the text %j is split into the lines %j', (text, lines) => {
    for (const size of [1, 2, 3, 1000]) expect(split(text, size)).toEqual(lines);
  });

  it('invalid UTF-8 becomes the replacement character', () => {
    for (const size of [1, 1000]) {
      expect(split(Buffer.from([0x61, 0xff, 0x0a, 0xc3, 0x0a, 0x62]), size)).toEqual([
        ...['a\ufffd', '\ufffd', 'b'],
      ]);
    }
  });

  it('lines do not depend on the chunk boundaries', () => {
    const texts = fc.array(
      fc.string({ unit: 'grapheme' }).map((text) => text.replace(/[\r\n]/g, '')),
    );
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 9 }), (lines, size) => {
        const text = lines.map((line) => `${line.replace(/\uFEFF/g, '')}\n`).join('');
        expect(split(text, size)).toEqual(split(text));
        expect(split(text)).toEqual(lines.map((line) => line.replace(/\uFEFF/g, '')));
      }),
      { numRuns: RUNS },
    );
  });

  it('long lines are cut at the maximum, for any chunk boundaries', () => {
    const long = 'x'.repeat(3 * MAX_LINE_BYTES);
    for (const size of [1000, MAX_LINE_BYTES, 70_001, Number.POSITIVE_INFINITY]) {
      expect(split(`a\n${long}end\nb\n${long}`, size)).toEqual([
        ...['a', long.slice(0, MAX_LINE_BYTES), 'b', long.slice(0, MAX_LINE_BYTES)],
      ]);
    }
  });

  it('a line of the maximum length is not cut', () => {
    const long = 'x'.repeat(MAX_LINE_BYTES);
    for (const size of [1000, Number.POSITIVE_INFINITY]) {
      expect(split(`${long}\n${long}\n`, size)).toEqual([long, long]);
    }
  });

  it('the maximum line length is in bytes', () => {
    const long = '語'.repeat(MAX_LINE_BYTES / 3 + 100);
    for (const size of [1000, Number.POSITIVE_INFINITY]) {
      const [first, second] = split(`${long}\nb`, size);
      expect(first.slice(0, 21_845)).toBe('語'.repeat(21_845));
      expect(first.length).toBe(21_846);
      expect(second).toBe('b');
    }
  });
});
