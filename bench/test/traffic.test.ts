import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { writeLog } from '../traffic/log.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function written(seed: number, name: string): Promise<readonly string[]> {
  const path = join(folder, name);
  await writeLog(path, { lines: 20_000, clients: 4000, seed });
  return readFileSync(path, 'utf8').trimEnd().split('\n');
}

describe('the log of the benchmark', async () => {
  const lines = await written(7, 'first.log');

  it('writeLog writes the given number of lines of one day, in order', () => {
    expect(lines).toHaveLength(20_000);
    const times = lines.map((line) => line.slice(line.indexOf('[') + 1, line.indexOf(']')));
    expect([...times].sort()).toEqual(times);
    for (const time of times) expect(time).toMatch(/^10\/Oct\/2026:\d\d:\d\d:\d\d \+0000$/);
  });

  it('writeLog writes the given number of clients, a few of them heavy', () => {
    const counts = new Map<string, number>();
    for (const line of lines) {
      const [client] = line.split(' ', 1);
      expect(client).toMatch(/^\d{1,3}(?:\.\d{1,3}){3}$/);
      counts.set(client, (counts.get(client) ?? 0) + 1);
    }
    expect(counts.size).toBeGreaterThanOrEqual(4000);
    expect(counts.size).toBeLessThanOrEqual(4020);
    expect(Math.max(...counts.values())).toBeGreaterThan(100);
  });

  it('writeLog writes the same log for the same seed', async () => {
    expect(await written(7, 'again.log')).toEqual(lines);
    expect(await written(8, 'other.log')).not.toEqual(lines);
  });
});
