import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
// @ts-expect-error: a tool without types of its own.
import { generated } from '../../../../tools/embed-lua.mjs';
import { SCRIPT, SCRIPT_SHA } from '../../src/stores/redis/scripts.generated.ts';

const folder = new URL('../../src/stores/redis/', import.meta.url);
const files = readdirSync(new URL('scripts/', folder));

describe('the embedded script', () => {
  it('the embedded script equals the joined Lua files', () => {
    expect(readFileSync(new URL('scripts.generated.ts', folder), 'utf8')).toBe(generated());
  });

  it('Redis has the embedded script under the embedded hash', () => {
    expect(createHash('sha1').update(SCRIPT).digest('hex')).toBe(SCRIPT_SHA);
  });

  it('the script contains every Lua file, and each file has a header comment', () => {
    for (const file of files) {
      const text = readFileSync(new URL(`scripts/${file}`, folder), 'utf8');
      expect(text).toMatch(/^-- /);
      const line = text.split('\n').find((each) => /^(?:local|build)\b/.test(each));
      expect(SCRIPT).toContain(line?.trim());
    }
  });

  it('the script never converts numbers to text with loss of digits', () => {
    expect(SCRIPT).not.toMatch(/tostring\((?!problem|text|formats)/);
    expect(SCRIPT).not.toMatch(/cjson/);
  });
});
