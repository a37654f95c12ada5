import { describe, expect, test, vi } from 'vitest';
import { checkCommand } from '../src/view/command.ts';
import { keyText, shortKeyText, visibleJson } from '../src/view/key-text.ts';

/** Invisible or direction-changing characters of every kind. */
const INVISIBLE = ['\u0000', '\n', '\u007f', '\u0085', '\u00ad', '\u200b', '\u200f', '\u202e'];
const MORE = ['\u2028', '\u2066', '\u3164', '\ufe0f', '\ufeff', '\u{e0041}'];

describe('invisible characters of a key', () => {
  test.each([...INVISIBLE, ...MORE])(
    'the invisible character %j in a key is shown as an escape',
    (character) => {
      const shown = `\\u{${character.codePointAt(0)!.toString(16)}}`;
      expect(keyText(`a${character}b`)).toBe(`a${shown}b`);
      expect(shortKeyText(character)).toBe(shown);
    },
  );

  test('letters, marks and spaces of any script in a key are shown unchanged', () => {
    const key = 'user: Zoë-\u0301 \u05d0\u05d1 \u0627 \u65e5\u672c \u{1f600} a\\u{202e}';
    expect(keyText(key)).toBe(key);
  });

  test.each([...INVISIBLE, ...MORE])('JSON for the shell contains no raw %j', (character) => {
    const text = visibleJson({ key: `a${character}b` });
    expect(text).not.toContain(character);
    expect(JSON.parse(text)).toEqual({ key: `a${character}b` });
  });

  test('the curl command of a key has invisible characters as JSON escapes', () => {
    vi.stubGlobal('location', { origin: 'http://127.0.0.1:1' });
    const command = checkCommand('p', 'a\u202eb');
    expect(command).toContain('{"policy":"p","key":"a\\u202eb"}');
    vi.unstubAllGlobals();
  });
});

test('a long key is truncated before it is escaped', () => {
  expect(shortKeyText('\u202e'.repeat(61))).toBe(`${'\\u{202e}'.repeat(60)}…`);
});
