import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalizeKey, sha256 } from '../../src/http/normalize-key.ts';

/** Node's SHA-256 of the big-endian UTF-16 bytes. */
const byNode = (text: string): string =>
  createHash('sha256').update(Buffer.from(text, 'utf16le').swap16()).digest('hex');

describe('normalizeKey', () => {
  it('normalizeKey hashes with SHA-256 for all lengths and characters', () => {
    const texts = fc
      .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 300 })
      .map((units) => String.fromCharCode(...units));
    fc.assert(
      fc.property(texts, (text) => {
        expect(sha256(text)).toBe(byNode(text));
      }),
    );
    const token = 'é'.repeat(100_000);
    expect(sha256(token)).toBe(byNode(token));
  });

  it('normalizeKey hashes only keys of more than 1,024 characters', () => {
    expect(normalizeKey('a'.repeat(1024))).toBe('a'.repeat(1024));
    expect(normalizeKey('a'.repeat(1025))).toBe(`sha256:${byNode('a'.repeat(1025))}`);
    expect(normalizeKey(['a:b', 7])).toBe('a\\:b:7');
    expect(normalizeKey(['a', 'b'.repeat(1024)])).toBe(`sha256:${byNode(`a:${'b'.repeat(1024)}`)}`);
    expect(normalizeKey(42)).toBe('42');
  });

  it('normalizeKey returns invalid keys unchanged', () => {
    for (const key of [undefined, null, {}, '']) expect(normalizeKey(key as never)).toBe(key);
  });
});
