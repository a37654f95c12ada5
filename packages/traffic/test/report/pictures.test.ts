/** docs/algorithms: pictures and numbers agree with the engine. */
import { readFileSync } from 'node:fs';
import { definePolicy } from 'sluice';
import { describe, expect, test } from 'vitest';
import { percentText } from '../../src/format.ts';
import { algorithmPicture, COMPARED, Comparison, generateTraffic } from '../../src/index.ts';
import { adversaryOf } from '../../src/replay/adversary.ts';
import { simulateGreedyClient } from '../../src/report/algorithm-picture.ts';

const folder = new URL('../../../../docs/algorithms/', import.meta.url);
const read = (name: string): string => readFileSync(new URL(name, folder), 'utf8');

describe.each(COMPARED)('the documentation page of %s', (algorithm) => {
  const page = read(`${algorithm}.md`);
  const picture = read(`${algorithm}.svg`);

  test(`the picture of ${algorithm} equals a newly drawn one`, () => {
    expect(algorithmPicture(algorithm) === picture, 'node tools/algorithm-pictures.mjs').toBe(true);
    expect(page).toMatch(new RegExp(`^!\\[[^\\]]+\\]\\(${algorithm}\\.svg\\)$`, 'm'));
  });

  test(`the alt text of the picture of ${algorithm} agrees with the picture`, () => {
    const most = Math.max(...simulateGreedyClient(algorithm).map(({ inWindow }) => inWindow));
    expect(picture).toContain(`>${algorithm}: at most ${most} in a minute, `);
    const [altText] = /^!\[.*\]/m.exec(page)!;
    expect(altText).toContain(String(most));
  });

  test(`the page of ${algorithm} has formula, worst case, wait, memory and when to use it`, () => {
    for (const name of ['formula', 'worst case', 'wait', 'memory']) {
      expect(page).toContain(`\n| ${name} | `);
    }
    expect(page).toMatch(/\bUse it\b/);
  });
});

test('the pictures of algorithms contain no scripts and no external references', () => {
  for (const algorithm of COMPARED) {
    const text = read(`${algorithm}.svg`).replace('xmlns="http://www.w3.org/2000/svg"', '');
    expect(/:\/\/|<script|<image|href|url\(|@import/i.exec(text)).toBeNull();
  }
});

describe('the table of algorithms', () => {
  const rows = read('README.md')
    .split('\n')
    .filter((line) => line.startsWith('| ['))
    .map((line) => line.split('|').map((cell) => cell.trim()));
  const nameOf = (row: readonly string[]): string => /\[([\w-]+)\]/.exec(row[1])![1];

  test('the table in docs/algorithms lists every algorithm', () => {
    expect(rows.map(nameOf)).toEqual([...COMPARED]);
  });

  test('the table in docs/algorithms has the worst cases of the adversary', () => {
    const found = COMPARED.map((algorithm) => {
      const policy = definePolicy(algorithm, { limit: 100, window: '1m', algorithm });
      return String(adversaryOf(policy).count);
    });
    expect(rows.map((row) => row[3])).toEqual(found);
  });

  test('the table in docs/algorithms has the measured numbers of ordinary traffic', () => {
    const flagValue = (name: string): number =>
      Number(new RegExp(`--${name} (\\d+)`).exec(read('README.md'))![1]);
    const [clients, requests] = ['clients', 'requests'].map(flagValue);
    const keyOf = ({ client }: { client: string }): string => client;
    const comparison = new Comparison({ limit: 20, windowMs: 60_000, keyOf });
    comparison.add([...generateTraffic({ shape: 'diurnal', requests, clients })]);
    const { algorithms } = comparison.result();
    const found = algorithms.map(({ worst, falseAdmits, falseDenials }) => [
      String(worst!.count),
      percentText(falseAdmits + falseDenials, requests),
    ]);
    expect(rows.map((row) => [row[4], row[5]])).toEqual(found);
  });
});
