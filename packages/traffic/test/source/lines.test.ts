/** Bytes to lines, however they are cut up. */
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
  ])('of %j are %j', (text, lines) => {
    for (const size of [1, 2, 3, 1000]) expect(split(text, size)).toEqual(lines);
  });

  it('have a sign for what is no UTF-8', () => {
    for (const size of [1, 1000]) {
      expect(split(Buffer.from([0x61, 0xff, 0x0a, 0xc3, 0x0a, 0x62]), size)).toEqual([
        ...['a\ufffd', '\ufffd', 'b'],
      ]);
    }
  });

  it('do not depend on where the bytes are cut', () => {
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

  it('are cut where they are too long, wherever the bytes are', () => {
    const long = 'x'.repeat(3 * MAX_LINE_BYTES);
    for (const size of [1000, MAX_LINE_BYTES, 70_001, Number.POSITIVE_INFINITY]) {
      expect(split(`a\n${long}end\nb\n${long}`, size)).toEqual([
        ...['a', long.slice(0, MAX_LINE_BYTES), 'b', long.slice(0, MAX_LINE_BYTES)],
      ]);
    }
  });

  it('are not cut if they are just as long as may be', () => {
    const long = 'x'.repeat(MAX_LINE_BYTES);
    for (const size of [1000, Number.POSITIVE_INFINITY]) {
      expect(split(`${long}\n${long}\n`, size)).toEqual([long, long]);
    }
  });

  it('are measured in bytes', () => {
    const long = '語'.repeat(MAX_LINE_BYTES / 3 + 100);
    for (const size of [1000, Number.POSITIVE_INFINITY]) {
      const [first, second] = split(`${long}\nb`, size);
      expect(first.slice(0, 21_845)).toBe('語'.repeat(21_845));
      expect(first.length).toBe(21_846);
      expect(second).toBe('b');
    }
  });
});
