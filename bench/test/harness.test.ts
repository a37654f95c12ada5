import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { median, ratio, spread, takeTurns, timeRows, withContenders } from '../harness.mjs';
import { bar, report } from '../report.mjs';

const folder = mkdtempSync(`${tmpdir()}/sluice-bench-`);
afterAll(() => rmSync(folder, { recursive: true }));

/** Contenders that return a time instead of taking it. */
const module = pathToFileURL(`${folder}/contenders.mjs`);
writeFileSync(
  module,
  `let turn = 0;
   export const contenders = {
     quick: ({ factor }) => ({ run: (operations) => factor * operations * (1 + turn++) }),
     slow: ({ factor }) => ({ run: (operations) => 4 * factor * operations * (1 + turn++) }),
     broken: () => ({ run: () => { throw new Error('out of order'); } }),
     dying: () => ({ run: () => process.exit(3) }),
   };`,
);

describe('the harness', () => {
  it('takeTurns runs contenders in turns, each in its own process', async () => {
    const times = await withContenders(module, ['quick', 'slow'], { factor: 2 }, (contenders) =>
      takeTurns(contenders, 3, 10),
    );
    expect([...times]).toEqual([
      ['quick', [20, 40, 60]],
      ['slow', [80, 160, 240]],
    ]);
    expect(ratio(times, 'quick', 'slow')).toBe(4);
    expect(timeRows(times, { measure: 'm' })[0]).toEqual({
      measure: 'm',
      contender: 'quick',
      'ns/op': 40,
      'spread %': 100,
    });
  });

  it.each([
    ['broken', 'broken: Error: out of order'],
    ['dying', 'the process of dying ended with code 3'],
  ])('takeTurns rejects with the error of a contender that is %s', async (name, message) => {
    const task = withContenders(module, [name], {}, (contenders) => takeTurns(contenders, 1, 1));
    await expect(task).rejects.toThrow(message);
  });

  it('median and spread are computed from the values', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(spread([80, 100, 120])).toBe(0.4);
  });
});

describe('the report', () => {
  const result = {
    rows: [{ contender: 'a', 'ns/op': 1 }],
    ratios: { 'a / b': 2 },
    bars: [bar('fast', '>=', 2, 3), bar('small', '<=', 48, 40)],
  };

  it('the JSON report has all fields, and the exit code is 0 if every bar holds', () => {
    const printed: string[] = [];
    expect(report('memory', result, true, (line: string) => printed.push(line))).toBe(0);
    const parsed = JSON.parse(printed.join('\n'));
    expect(Object.keys(parsed)).toEqual(['bench', 'date', 'machine', 'rows', 'ratios', 'bars']);
    expect(parsed.bars[0]).toEqual({ name: 'fast', need: '>= 2', got: 3, ok: true });
  });

  it.each([bar('fast', '>=', 2, 1.99), bar('small', '<=', 48, 48.1)])(
    'the exit code is 1 if a result misses the bar $name',
    (missed) => {
      const printed: string[] = [];
      const bars = [...result.bars, missed];
      expect(
        report('memory', { ...result, bars }, false, (line: string) => printed.push(line)),
      ).toBe(1);
      expect(printed[0]).toMatch(/fast +>= 2 +3 +true/);
      expect(printed[0]).toContain('false');
    },
  );
});
