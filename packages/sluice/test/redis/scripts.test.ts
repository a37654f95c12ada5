import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
// @ts-expect-error: a tool without types of its own.
import { generated } from '../../../../tools/embed-lua.mjs';
import { SCRIPT, SCRIPT_SHA } from '../../src/stores/redis/scripts.generated.ts';

const folder = new URL('../../src/stores/redis/', import.meta.url);
const files = readdirSync(new URL('scripts/', folder));

describe('the embedded script', () => {
  it('is what the Lua files make', () => {
    expect(readFileSync(new URL('scripts.generated.ts', folder), 'utf8')).toBe(generated());
  });

  it('is known to Redis by the hash that is embedded with it', () => {
    expect(createHash('sha1').update(SCRIPT).digest('hex')).toBe(SCRIPT_SHA);
  });

  it('has a part of every file, and each file says what it is for', () => {
    for (const file of files) {
      const text = readFileSync(new URL(`scripts/${file}`, folder), 'utf8');
      expect(text).toMatch(/^-- /);
      const line = text.split('\n').find((each) => /^(?:local|build)\b/.test(each));
      expect(SCRIPT).toContain(line?.trim());
    }
  });

  it('never turns a number into text in the way that loses digits', () => {
    expect(SCRIPT).not.toMatch(/tostring\((?!problem|text|formats)/);
    expect(SCRIPT).not.toMatch(/cjson/);
  });
});
