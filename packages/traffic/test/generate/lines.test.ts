import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { clfText, isoText } from '../../src/calendar.ts';
import {
  type Entry,
  generateTraffic,
  type LineFormat,
  LogReader,
  lineWriter,
  SHAPE_NAMES,
  type TrafficOptions,
} from '../../src/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-generate-'));
afterAll(() => rmSync(folder, { recursive: true }));

function logOf(options: TrafficOptions, format: LineFormat): string {
  const write = lineWriter(format);
  let text = '';
  for (const request of generateTraffic(options)) text += `${write(request)}\n`;
  return text;
}

async function readBack(text: string): Promise<{ entries: Entry[]; reader: LogReader }> {
  const path = join(folder, 'access.log');
  writeFileSync(path, text);
  const reader = await LogReader.open([path]);
  const entries: Entry[] = [];
  for await (const batch of reader.entries()) entries.push(...batch);
  return { entries, reader };
}

describe.each(SHAPE_NAMES)('a generated log of %s', (shape) => {
  const options = { shape, requests: 800, clients: 25, seed: 11 };

  test(`the same seed writes the same ${shape} log`, () => {
    expect(logOf(options, 'combined')).toBe(logOf(options, 'combined'));
    expect(logOf({ ...options, seed: 12 }, 'combined')).not.toBe(logOf(options, 'combined'));
  });

  test.each(['combined', 'json-lines'] as const)(
    `${shape} requests are read back from a %s log`,
    async (format) => {
      const { entries, reader } = await readBack(logOf(options, format));
      expect(reader.report).toMatchObject({
        format,
        entries: 800,
        unreadable: 0,
        late: 0,
        moved: 0,
      });
      const requests = [...generateTraffic(options)];
      for (const [at, request] of requests.entries()) {
        const { timeMs, client, method, path, search, status, bytes, user } = request;
        // Times of combined logs are whole seconds.
        const expectedMs = format === 'combined' ? Math.floor(timeMs / 1000) * 1000 : timeMs;
        expect(entries[at]).toMatchObject({ client, method, path, search, status, bytes, user });
        expect(entries[at].timeMs).toBe(expectedMs);
        expect(entries[at].field('user-agent')).toBe(request.agent);
      }
      if (format === 'json-lines') expect(entries[0].host).toBe('shop.example');
    },
  );
});

test('the output of a seed does not change between versions', () => {
  const hashes = SHAPE_NAMES.map((shape) => {
    const text = logOf({ shape, requests: 2000 }, 'combined');
    return `${shape} ${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
  });
  expect(hashes).toMatchInlineSnapshot(`
    [
      "steady 50ffd056f2c939e2",
      "boundary 5f5563786e941ad6",
      "diurnal c08da3dc4187fde7",
      "flash-crowd 1cb515b1e2a56e90",
      "abuser d46a9a59e1f44d71",
      "ipv6-rotation cf4740685be06f7e",
    ]
  `);
});

describe('times of log lines', () => {
  test.each([
    [0, '1970-01-01T00:00:00.000Z', '01/Jan/1970:00:00:00 +0000'],
    [951_782_399_999, '2000-02-28T23:59:59.999Z', '28/Feb/2000:23:59:59 +0000'],
    [951_868_799_000, '2000-02-29T23:59:59.000Z', '29/Feb/2000:23:59:59 +0000'],
    [4_107_542_400_000, '2100-03-01T00:00:00.000Z', '01/Mar/2100:00:00:00 +0000'],
  ])('the time %s is written as %s', (timeMs, iso, clf) => {
    expect(isoText(timeMs)).toBe(iso);
    expect(clfText(timeMs)).toBe(clf);
  });

  test('times of log lines agree with Date for every day of two centuries', () => {
    for (let timeMs = 0; timeMs < 200 * 366 * 86_400_000; timeMs += 86_399_123) {
      if (isoText(timeMs) !== new Date(timeMs).toISOString()) expect(isoText(timeMs)).toBe(timeMs);
    }
  });
});
