/** Every field of every line of the sample logs. */
import { describe, expect, it } from 'vitest';
import { detect } from '../../src/formats/detect.ts';
import { fieldsOf, readAll, sample, sumOfLines } from '../reading.ts';

const SAMPLES = [
  ['common', 'combined'],
  ['combined', 'combined'],
  ['vhost-combined', 'combined'],
  ['traefik-common', 'combined'],
  ['caddy', 'caddy'],
  ['traefik', 'traefik'],
  ['alb', 'alb'],
  ['json-lines', 'json-lines'],
  ['csv', 'csv'],
] as const;

describe.each(SAMPLES)('the sample %s', (name, format) => {
  const { path, lines, entries, unreadable } = sample(name);
  const heading = format === 'csv' ? 1 : 0;

  it(`the sample ${name} has at least 30 readable and 20 unreadable lines`, () => {
    expect(entries.size).toBeGreaterThanOrEqual(30);
    expect(unreadable).toHaveLength(20);
    expect(entries.size + unreadable.length + heading).toBe(lines.length);
  });

  it.each([...entries])(
    `line %i of the sample ${name} has the expected fields`,
    (number, fields) => {
      const found = detect(lines)?.read(lines[number - 1]);
      expect(found && fieldsOf(found)).toEqual(fields);
    },
  );

  it(`the entries of the sample ${name} are returned in order of time`, async () => {
    const read = await readAll(path);
    const expected = [...entries.values()].toSorted((one, other) => one.timeMs - other.timeMs);
    expect(read.entries.map(fieldsOf)).toEqual(expected);
    expect(read.report.moved).toBeGreaterThan(0);
    expect(read.report.firstMs).toBe(expected[0].timeMs);
    expect(read.report.lastMs).toBe(expected[expected.length - 1].timeMs);
    expect(read.report).toMatchObject({ late: 0, early: 0, gaps: 0 });
  });

  it(`every line of the sample ${name} is counted, and unreadable ones are listed`, async () => {
    const { report } = await readAll(path);
    expect(sumOfLines(report)).toBe(lines.length);
    expect(report).toMatchObject({
      ...{ format, heading, lines: lines.length, entries: entries.size },
      ...{ unreadable: 20, blank: 0 },
    });
    expect(report.samples.map(({ line }) => line)).toEqual(unreadable);
    expect(new Set(report.samples.map((each) => each.path))).toEqual(new Set([path]));
  });

  it(`the result of the sample ${name} is the same if the format is given`, async () => {
    const { report } = await readAll(path, { format });
    expect(report).toMatchObject({ format, entries: entries.size, unreadable: 20 });
  });
});
