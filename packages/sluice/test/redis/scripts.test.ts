import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
// @ts-expect-error: a tool without types of its own.
import { generated } from '../../../../tools/embed-lua.mjs';
import { SCRIPTS } from '../../src/stores/redis/scripts.generated.ts';

const folder = new URL('../../src/stores/redis/', import.meta.url);
const files = readdirSync(new URL('scripts/', folder), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.lua'))
  .map((name) => ({ name, text: readFileSync(new URL(`scripts/${name}`, folder), 'utf8') }));
const scripts = Object.values(SCRIPTS);

describe('the embedded scripts', () => {
  it('the embedded scripts equal the composed Lua files', () => {
    expect(readFileSync(new URL('scripts.generated.ts', folder), 'utf8')).toBe(generated());
  });

  it('the SHA-1 of each embedded script equals its embedded hash', () => {
    for (const { text, sha } of scripts) {
      expect(createHash('sha1').update(text).digest('hex')).toBe(sha);
    }
  });

  it('every Lua file is part of an embedded script and has a header comment', () => {
    for (const { name, text } of files) {
      expect(text, name).toMatch(/^-- /);
      const line = text
        .split('\n')
        .find((each) => each !== '' && !each.startsWith('--'))
        ?.trim();
      expect(scripts.filter((script) => script.text.includes(line!)).length, name).toBeGreaterThan(
        0,
      );
    }
  });

  it('the general script and the fast scripts include the same shared Lua files', () => {
    const uses = (file: string, part: string) =>
      files.find(({ name }) => name === file)?.text.includes(`-- include shared/${part}\n`);
    for (const name of ['fixed-window', 'sliding-counter', 'token-bucket']) {
      expect([uses(`${name}.lua`, name), uses(`fast/${name}.lua`, name)]).toEqual([true, true]);
    }
    expect(uses('sliding-log.lua', 'log-decide')).toBe(true);
    expect(uses('fast/log.lua', 'log-decide')).toBe(true);
  });

  it('no fast script defines a Lua function', () => {
    const { general, ...fast } = SCRIPTS;
    expect(general.text).toMatch(/\bfunction\b/);
    for (const { text } of Object.values(fast)) expect(text).not.toMatch(/\bfunction\b/);
  });

  it('no script converts numbers to text by tostring or cjson, which lose digits', () => {
    for (const { text } of scripts) {
      expect(text).not.toMatch(/tostring\((?!problem|text|formats)/);
      expect(text).not.toMatch(/cjson/);
    }
  });
});
