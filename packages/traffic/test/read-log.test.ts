/** Reading one log or several: formats, order and reports. */
import { readdirSync, readlinkSync, realpathSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { FORMAT_NAMES } from '../src/formats/detect.ts';
import { LogReader } from '../src/read-log.ts';
import { LogError } from '../src/source.ts';
import {
  combinedLine,
  fieldsOf,
  makeFile,
  RUNS,
  readAll,
  START_MS,
  sample,
  sumOfLines,
} from './reading.ts';

const log = (...offsetsMs: readonly number[]): string =>
  makeFile(offsetsMs.map((each) => `${combinedLine(START_MS + each)}\n`).join(''));
const table = (...lines: readonly string[]): string => makeFile(lines.join('\n'));
const offsetsOf = (entries: readonly { readonly timeMs: number }[]): number[] =>
  entries.map(({ timeMs }) => timeMs - START_MS);
const iso = (offsetMs: number): string => new Date(START_MS + offsetMs).toISOString();

/** Formats with a sample of lines. */
const SAMPLED = ['combined', 'caddy', 'traefik', 'alb', 'json-lines', 'csv'] as const;

const HINT = '. Name the columns, such as --column time=when --column client=ip';

function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((file) => {
    try {
      return [readlinkSync(`/proc/self/fd/${file}`)];
    } catch {
      // The folder itself was open while it was listed.
      return [];
    }
  });
}

describe('one log', () => {
  it('the report is updated while the log is read', async () => {
    const times = Array.from({ length: 20_000 }, (_, at) => at * 100);
    const reader = await LogReader.open([log(...times)], { latenessMs: 10_000 });
    const { report } = reader;
    let returned = 0;
    const seen: number[] = [];
    for await (const batch of reader.entries()) {
      returned += batch.length;
      seen.push(report.lines);
      expect(report.lines).toBeGreaterThanOrEqual(returned);
      expect(report.lastMs).toBe(batch.at(-1)?.timeMs);
    }
    expect(seen.length).toBeGreaterThan(3);
    expect(report).toMatchObject({ lines: 20_000, entries: 20_000, firstMs: START_MS });
    expect(returned).toBe(20_000);
  });

  it('log files are closed when the consumer stops reading early', async () => {
    const times = Array.from({ length: 50_000 }, (_, at) => at * 100);
    const [one, other] = [log(...times), log(...times)];
    const reader = await LogReader.open([one, other], { latenessMs: 10_000 });
    for await (const batch of reader.entries()) {
      expect(batch.length).toBeGreaterThan(0);
      expect(openFiles()).toContain(realpathSync(one));
      break;
    }
    await vi.waitFor(() => {
      expect(openFiles()).not.toContain(realpathSync(one));
      expect(openFiles()).not.toContain(realpathSync(other));
    });
  });

  it('lines that are late by any time, or by the given bound, are sorted', async () => {
    const path = log(0, 30_000, 20_000, 19_999, 31_000);
    const usual = await readAll(path, { latenessMs: 10_000 });
    expect(offsetsOf(usual.entries)).toEqual([0, 20_000, 20_000, 30_000, 31_000]);
    expect(usual.report).toMatchObject({ moved: 1, late: 1, early: 0, gaps: 0 });
    const tolerant = await readAll(path);
    expect(offsetsOf(tolerant.entries)).toEqual([0, 19_999, 20_000, 30_000, 31_000]);
    expect(tolerant.report).toMatchObject({ moved: 2, late: 0 });
  });

  it('log lines with a wrong clock are counted', async () => {
    const day = 86_400_000;
    const { entries, report } = await readAll(log(0, 400 * day, 1000, -day, 2000));
    expect(offsetsOf(entries)).toEqual([0, 0, 1000, 1000, 2000]);
    expect(report).toMatchObject({ entries: 5, late: 1, early: 1, gaps: 0 });
  });
});

describe('log formats', () => {
  it.each(SAMPLED)('the log format %s can be given', async (format) => {
    const { path, entries } = sample(format);
    const { report } = await readAll(path, { format });
    expect(report).toMatchObject({ format, entries: entries.size, unreadable: 20 });
  });

  it.each(FORMAT_NAMES)('a log that is not in the given format %s is rejected', async (format) => {
    const path = makeFile('neither this\nnor that\n');
    const error = await readAll(path, { format }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogError);
    const { message } = error as LogError;
    if (format === 'csv') {
      expect(message).toMatch(/ to start with a header line that has a time and a client column/);
      expect(message).toContain(`, got \`neither this\`${HINT}`);
    } else {
      expect(message).toBe(`Expected ${path} to have requests, got lines such as \`neither this\``);
    }
  });

  it('the format is detected after 80 other lines', async () => {
    const otherLines = Array.from(
      { length: 80 },
      (_, at) => `{"level":"info","ts":${at},"msg":"m"}`,
    );
    const { lines, entries } = sample('caddy');
    const good = [...entries.keys()].slice(0, 20).map((line) => lines[line - 1]);
    const { report } = await readAll(table(...otherLines, ...good));
    expect(report).toMatchObject({ format: 'caddy', entries: 20, unreadable: 80 });
  });

  it('the format is not detected if 1 % of the lines match', async () => {
    const otherLines = Array.from({ length: 99 }, (_, at) => `line ${at}`);
    await expect(readAll(table(...otherLines, combinedLine(START_MS)))).rejects.toThrow(
      /to be in one of the formats combined, .* got `line 0`\. For another format, use --pattern/,
    );
  });

  it('a JSON line that resembles one of Caddy is read as json-lines', async () => {
    const caddyLike = { ts: 1_791_633_336, request: 'GET / HTTP/1.1', client_ip: '192.0.2.1' };
    const { entries, report } = await readAll(table(JSON.stringify(caddyLike)));
    expect(report.format).toBe('json-lines');
    expect(entries[0]).toMatchObject({ method: 'GET', path: '/' });
  });

  it('JSON lines without a time or client are rejected with the missing names', async () => {
    const path = table('{"when":1791633336,"who":"192.0.2.1"}');
    const expected = 'to have known names for the time and the client';
    const line = '{"when":1791633336,"who":"192.0.2.1"}';
    await expect(readAll(path)).rejects.toThrow(
      `Expected ${path} ${expected}, got \`${line}\`${HINT}`,
    );
    await expect(readAll(path, { format: 'json-lines' })).rejects.toThrow(
      `Expected ${path} to have requests, got lines such as \`${line}\`${HINT}`,
    );
    const { entries } = await readAll(path, { columns: { time: 'when', client: 'who' } });
    expect(entries.map(fieldsOf)).toMatchObject([{ timeMs: START_MS, client: '192.0.2.1' }]);
  });

  it('a table is read by given column names', async () => {
    const path = table('when;who;what', `${iso(0)};192.0.2.1;/a?b`);
    await expect(readAll(path)).rejects.toThrow(
      `to have known names for the time and the client, got \`when;who;what\`${HINT}`,
    );
    const columns = { time: 'when', client: 'who', path: 'what' };
    const { entries, report } = await readAll(path, { columns });
    expect(entries.map(fieldsOf)).toMatchObject([{ timeMs: START_MS, path: '/a', search: 'b' }]);
    expect(report).toMatchObject({ format: 'csv', heading: 1, lines: 2 });
  });

  it('a table may have only a header line, or repeat it', async () => {
    await expect(readAll(table('time,client'))).rejects.toThrow(/to have requests, got none$/);
    const rows = [`${iso(0)},192.0.2.1`, 'time,client', `${iso(1)},192.0.2.2`];
    const { report } = await readAll(table('', 'time,client', ...rows));
    expect(report).toMatchObject({ lines: 5, entries: 2, heading: 2, blank: 1, unreadable: 0 });
  });
});

describe('several logs', () => {
  it('several logs are read in order of time, not of their names', async () => {
    const parts = [log(20_000, 30_000), log(0, 10_000), log(40_000)];
    const { entries, report } = await readAll(parts);
    expect(offsetsOf(entries)).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
    expect(report).toMatchObject({ lines: 5, entries: 5, moved: 0, late: 0 });
    expect(report.progress.bytesRead).toBe(report.progress.bytesTotal);
  });

  it('concurrent logs are merged by time', async () => {
    const hours = (start: number) => Array.from({ length: 3000 }, (_, at) => start + at * 3000);
    const { entries, report } = await readAll([log(...hours(1000)), log(...hours(0))]);
    const expected = [...hours(0), ...hours(1000)].toSorted((one, other) => one - other);
    expect(offsetsOf(entries)).toEqual(expected);
    expect(report).toMatchObject({ moved: 0, late: 0, entries: 6000 });
  });

  it('several logs may have different formats and columns', async () => {
    const first = table('time,client', `${iso(0)},192.0.2.1`);
    const second = table('client;time', `192.0.2.2;${iso(2000)}`);
    const { entries, report } = await readAll([second, log(1000), first]);
    expect(entries.map(({ client }) => client)).toEqual(['192.0.2.1', '192.0.2.1', '192.0.2.2']);
    expect(report).toMatchObject({ heading: 2, entries: 3, lines: 5 });
    expect(report.format.split(', ').toSorted()).toEqual(['combined', 'csv']);
  });

  it('each log has its own line numbers', async () => {
    const [one, other] = [
      table(combinedLine(START_MS), 'bad'),
      table(combinedLine(START_MS + 60_000), '', 'bad'),
    ];
    const { report } = await readAll([one, other]);
    expect(report.samples).toEqual([
      { path: one, line: 2, text: 'bad' },
      { path: other, line: 3, text: 'bad' },
    ]);
  });

  it('some of several logs may be empty, but not all', async () => {
    expect((await readAll([makeFile(''), log(0), makeFile('\n')])).report.entries).toBe(1);
    const [one, other] = [makeFile(''), makeFile('')];
    await expect(readAll([one, other])).rejects.toThrow(
      `Expected ${one}, ${other} to have requests, got none`,
    );
  });

  it('several logs are rejected if one is not a log', async () => {
    const bad = makeFile('not a log');
    await expect(readAll([log(0), bad])).rejects.toThrow(`Expected ${bad} to be in one of`);
  });

  it('times of merged logs never decrease', async () => {
    const steps = fc.integer({ min: -15_000, max: 20_000 });
    const logs = fc.array(fc.array(steps, { minLength: 1, maxLength: 60 }), {
      minLength: 1,
      maxLength: 5,
    });
    await fc.assert(
      fc.asyncProperty(logs, async (stepsOfLogs) => {
        const paths = stepsOfLogs.map((each) => {
          let timeMs = 0;
          return log(...each.map((step) => (timeMs += step)));
        });
        const { entries, report } = await readAll(paths);
        const times = offsetsOf(entries);
        expect(times).toEqual(times.toSorted((one, other) => one - other));
        expect(times).toHaveLength(stepsOfLogs.flat().length);
        expect(sumOfLines(report)).toBe(report.lines);
      }),
      { numRuns: Math.min(RUNS, 40) },
    );
  });
});

describe('arbitrary bytes', () => {
  const linePieces = ['common', 'caddy', 'traefik', 'alb', 'json-lines', 'csv'].flatMap((name) =>
    sample(name).lines.slice(0, 5),
  );
  const contents = fc.oneof(
    fc.uint8Array({ maxLength: 2000 }),
    // Logs with random damage.
    fc
      .array(
        fc.oneof(
          fc.constantFrom(...linePieces, '\n', '\n', '\r\n', '"', '\\', '[', '{', '\0', '\uFEFF'),
          fc.string({ maxLength: 20 }),
        ),
        { maxLength: 40 },
      )
      .map((pieces) => Buffer.from(pieces.join(''))),
    fc.uint8Array({ maxLength: 200 }).map((rest) => Buffer.from([0x1f, 0x8b, 8, ...rest])),
  );
  const formats = fc.option(fc.constantFrom(...FORMAT_NAMES), { nil: undefined });

  it('arbitrary bytes are read or rejected with a LogError, and lines are counted', async () => {
    await fc.assert(
      fc.asyncProperty(contents, formats, async (bytes, format) => {
        const reader = await LogReader.open([makeFile(bytes)], format && { format });
        try {
          for await (const batch of reader.entries()) {
            for (const entry of batch) expect(fieldsOf(entry).timeMs).toBeGreaterThanOrEqual(0);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(LogError);
        }
        expect(sumOfLines(reader.report)).toBe(reader.report.lines);
      }),
      { numRuns: RUNS },
    );
  });

  it('changing one line of a log makes no other line unreadable', async () => {
    const { path, lines, entries } = sample('combined');
    const whole = await readAll(path);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(lines.length - 1),
        fc.string({ unit: 'binary-ascii' }).map((text) => `x${text.replace(/[\n\0]/g, '')}`),
        async (at, text) => {
          const { report } = await readAll(table(...lines.with(at, text)));
          expect(report.lines).toBe(lines.length);
          expect(Math.abs(report.entries - whole.report.entries)).toBeLessThanOrEqual(1);
          expect(report.entries).toBeGreaterThanOrEqual(entries.size - 1);
        },
      ),
      { numRuns: Math.min(RUNS, 60) },
    );
  });
});
