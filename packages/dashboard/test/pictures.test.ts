/** The screenshots in the documentation, created by `npm run screenshots`. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = new URL('../../../', import.meta.url).pathname;
const MAX_BYTES = 200_000;

const documents = ['README.md', ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`)]
  .filter((path) => path.endsWith('.md'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** Paths from the root: of `![](...)`, `src="..."` and `srcset="..."`. */
const named = documents.flatMap(({ path, text }) =>
  [...text.matchAll(/(?:!\[[^\]]*\]\(|src(?:set)?=")([^)"\s]+\.png)/g)].map(([, picture]) => ({
    ...{ path, picture: join(dirname(path), picture) },
  })),
);

describe('screenshots', () => {
  test.each(['light', 'dark'])(
    'README.md shows a screenshot of the overview in the %s theme',
    (theme) => {
      const shown = named.filter(({ path }) => path === 'README.md').map(({ picture }) => picture);
      expect(shown).toContain(`docs/pictures/dashboard-overview-${theme}.png`);
    },
  );

  test.each(named)(
    '$path shows $picture, a PNG 1280 pixels wide of at most 200 kB',
    ({ picture }) => {
      const bytes = readFileSync(join(root, picture));
      expect(bytes.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n');
      expect(bytes.readUInt32BE(16)).toBe(1280);
      expect(bytes.length).toBeLessThan(MAX_BYTES);
    },
  );

  test('every screenshot is used in a document', () => {
    const there = readdirSync(join(root, 'docs/pictures')).map((name) => `docs/pictures/${name}`);
    expect([...new Set(named.map(({ picture }) => picture))].sort()).toEqual(there.sort());
  });
});
