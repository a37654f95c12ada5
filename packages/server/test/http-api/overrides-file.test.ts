import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/config/model.ts';
import { policy, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'overrides-'));
  file = join(folder, 'overrides.json');
});
afterEach(() => rmSync(folder, { recursive: true }));

const start = async () => {
  const policies = [policy('few', 2, '1m')];
  const settings = { overridesFile: file };
  return DocumentedApi.of(await startRunning({ config: { policies }, settings }));
};

/** Returns whether this process can mount file systems, which requires root. */
function canMount(): boolean {
  const place = mkdtempSync(join(tmpdir(), 'sluice-mount-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', place], { stdio: 'pipe' });
    execFileSync('umount', [place]);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(place, { recursive: true });
  }
}

const savedOverrides = () => JSON.parse(readFileSync(file, 'utf8')).overrides;
const savedShadow = () => JSON.parse(readFileSync(file, 'utf8')).shadow;
const patch = async (api: DocumentedApi, shadow: boolean | null) =>
  (await api.request('PATCH', '/v1/policies/few', { shadow })).json;

describe('the overrides file', () => {
  test('overrides of the API are saved before the response and survive a restart', async () => {
    const first = await start();
    const ada = { policy: 'few', key: 'ada', limit: 5, reason: 'ä "quoted" one' };
    const set = await first.post('/v1/overrides', ada);
    expect(set.json.persisted).toBe(true);
    expect(savedOverrides()).toEqual([ada]);
    await first.put('/v1/overrides/few/vip:*', { limit: 9, expiresAt: '2090-01-01T00:00:00Z' });
    await first.put('/v1/overrides/few/gone', { limit: 8 });
    expect((await first.delete('/v1/overrides/few/gone')).json.persisted).toBe(true);
    const before = (await first.get('/v1/overrides')).json;
    await first.close();

    const second = await start();
    const after = (await second.get('/v1/overrides')).json;
    expect(after).toEqual(before);
    expect(after.overrides.map(({ key }: { key: string }) => key)).toEqual(['ada', 'vip:*']);
    const { json } = await second.post('/v1/check', { policy: 'few', key: 'vip:bob' });
    expect(json.limit).toBe(9);
    await second.close();
    expect(readdirSync(folder)).toEqual(['overrides.json']);
  });

  test('concurrent overrides are all saved in the overrides file', async () => {
    const api = await start();
    const keys = Array.from({ length: 50 }, (_, at) => `k${at}`);
    const responses = await Promise.all(
      keys.map((key) => api.put(`/v1/overrides/few/${key}`, { limit: 3 })),
    );
    expect(responses.every(({ json }) => json.persisted)).toBe(true);
    expect(savedOverrides()).toHaveLength(50);
    await api.close();
  });

  test('shadow overrides are saved and survive a restart', async () => {
    const first = await start();
    expect((await patch(first, true)).persisted).toBe(true);
    expect(savedShadow()).toEqual({ few: true });
    await first.put('/v1/overrides/few/ada', { limit: 5 });
    expect([savedShadow(), savedOverrides()]).toEqual([
      { few: true },
      [{ policy: 'few', key: 'ada', limit: 5 }],
    ]);
    await first.close();

    const second = await start();
    const { json } = await second.get('/v1/policies/few');
    expect(json).toMatchObject({ shadow: true, shadowBy: 'api', overrides: 1 });
    const bodies = Array(3).fill({ policy: 'few', key: 'bob' });
    for (const body of bodies)
      expect((await second.post('/v1/check', body)).json.limits).toEqual([]);
    expect(await patch(second, null)).toMatchObject({ persisted: true });
    // Without shadow overrides the file has no such field.
    expect(readFileSync(file, 'utf8')).not.toContain('shadow');
    await second.close();

    const third = await start();
    expect((await third.get('/v1/policies/few')).json).toMatchObject({ shadowBy: 'file' });
    await third.close();
  });

  test('shadow overrides of removed policies are kept in the file', async () => {
    const text = '{"overrides": [], "shadow": {"__proto__": true, "former": false}}';
    writeFileSync(file, text);
    const api = await start();
    await patch(api, false);
    const entries = Object.entries(savedShadow());
    expect(entries).toEqual(Object.entries({ ['__proto__']: true, few: false, former: false }));
    const { status, json } = await api.request('PATCH', '/v1/policies/former', { shadow: null });
    expect([status, json.persisted, Object.keys(savedShadow())]).toEqual([
      ...[200, true],
      ['__proto__', 'few'],
    ]);
    await api.close();
  });

  test('a shadow override that was not saved is reported and saved by a later change', async () => {
    const api = await start();
    await patch(api, true);
    const temporary = `${file}.${process.pid}.new`;
    mkdirSync(temporary);
    expect(await patch(api, null)).toMatchObject({ policy: { shadow: false }, persisted: false });
    expect(savedShadow()).toEqual({ few: true });
    rmSync(temporary, { recursive: true });
    expect((await patch(api, null)).persisted).toBe(true);
    expect(savedShadow()).toBeUndefined();
    await api.close();
  });

  test('the file drops expired overrides and keeps overrides of removed policies', async () => {
    const kept = { policy: 'former', key: 'a', limit: 3 };
    const expired = { policy: 'few', key: 'old', limit: 3, expiresAtMs: 1000 };
    writeFileSync(file, JSON.stringify({ overrides: [kept, expired] }));
    const api = await start();
    expect((await api.get('/v1/overrides')).json.overrides).toMatchObject([kept]);
    await api.put('/v1/overrides/few/new', { limit: 4 });
    expect(savedOverrides().map(({ key }: { key: string }) => key)).toEqual(['new', 'a']);
    await api.close();
  });

  test('a failed write leaves the overrides file unchanged', async () => {
    const api = await start();
    await api.put('/v1/overrides/few/a', { limit: 3 });
    // A folder exists at the path of the temporary file.
    const temporary = `${file}.${process.pid}.new`;
    mkdirSync(temporary);
    const { status, json } = await api.put('/v1/overrides/few/b', { limit: 3 });
    expect([status, json.persisted]).toEqual([200, false]);
    expect(savedOverrides().map(({ key }: { key: string }) => key)).toEqual(['a']);
    const listed = (await api.get('/v1/overrides')).json.overrides;
    expect(listed.map(({ persisted }: { persisted: boolean }) => persisted)).toEqual([
      false,
      false,
    ]);
    rmSync(temporary, { recursive: true });
    expect((await api.put('/v1/overrides/few/c', { limit: 3 })).json.persisted).toBe(true);
    expect(savedOverrides()).toHaveLength(3);
    await api.close();
  });

  test('a failed write of the overrides file is retried without another change', async () => {
    const api = await start();
    const temporary = `${file}.${process.pid}.new`;
    mkdirSync(temporary);
    expect((await api.put('/v1/overrides/few/a', { limit: 3 })).json.persisted).toBe(false);
    rmSync(temporary, { recursive: true });
    const persisted = async () => (await api.get('/v1/overrides')).json.overrides[0].persisted;
    await expect.poll(persisted, { timeout: 20_000 }).toBe(true);
    expect(savedOverrides()).toHaveLength(1);
    await api.close();
  });

  test.skipIf(!canMount())(
    'a full disk leaves the overrides file unchanged, and the write is retried',
    async () => {
      const disk = join(folder, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', disk]);
      const outside = file;
      file = join(disk, 'overrides.json');
      const api = await start();
      try {
        expect((await api.put('/v1/overrides/few/a', { limit: 3 })).json.persisted).toBe(true);
        // Fills the disk.
        expect(() => writeFileSync(join(disk, 'filler'), Buffer.alloc(64 * 1024))).toThrow(
          'ENOSPC',
        );
        const { status, json } = await api.put('/v1/overrides/few/b', { limit: 3 });
        expect([status, json.persisted]).toEqual([200, false]);
        expect((await api.post('/v1/check', { policy: 'few', key: 'b' })).json.limit).toBe(3);
        expect(savedOverrides()).toHaveLength(1);
        rmSync(join(disk, 'filler'));
        await expect.poll(() => savedOverrides().length, { timeout: 20_000 }).toBe(2);
      } finally {
        await api.close();
        execFileSync('umount', [disk]);
        file = outside;
      }
    },
  );

  test('a temporary overrides file left by a killed process is deleted', async () => {
    writeFileSync(`${file}.4711.new`, '{"overrides": [');
    const api = await start();
    expect(readdirSync(folder)).toEqual(['overrides.json.lock']);
    // Opening a FIFO would wait for a reader.
    execFileSync('mkfifo', [`${file}.${process.pid}.new`]);
    expect((await api.put('/v1/overrides/few/a', { limit: 3 })).json.persisted).toBe(true);
    await api.close();
    expect(readdirSync(folder)).toEqual(['overrides.json']);
  });

  test('the start of a service rejects a FIFO as overrides file', async () => {
    execFileSync('mkfifo', [file]);
    await expect(start()).rejects.toThrow('a FIFO, which is not a regular file');
  });

  const limitProblem = 'Expected the limit of an override to be an integer';
  test.each([
    ['{"overrides": [', 1, 16, 'Expected JSON'],
    ['', 1, 1, 'Expected JSON'],
    ['[]', 1, 1, 'Expected `the file`'],
    ['{}', 1, 1, 'Expected `overrides`'],
    ['{"overrides": [],\n "more": 1}', 1, 1, 'Unrecognized key: "more"'],
    ['{"overrides": [\n  {"policy": "few", "key": "a"}\n]}', 2, 3, 'Expected `overrides.0.limit`'],
    ['{"overrides": [\n{"policy":"few","key":"a","limit":"3"}]}', 2, 35, '`overrides.0.limit`'],
    ['{"overrides": [\n{"policy":"few","key":"a","limit":0}]}', 2, 1, limitProblem],
    ['{"overrides": [\n{"policy":"few","key":"","limit":3}]}', 2, 1, 'Expected the key'],
    ['{"shadow": {}}', 1, 1, 'Expected `overrides`'],
    ['{"overrides": [],\n"shadow": null}', 2, 11, '`shadow` as written by the service'],
    ['{"overrides": [],\n"shadow": [true]}', 2, 11, 'by the service: Expected an object'],
    ['{"overrides": [], "shadow":\n{"few": 1}}', 2, 9, '`shadow.few` as written by the service'],
    ['{"overrides": [], "shadow":\n{"__proto__": null}}', 2, 15, 'Expected true or false'],
  ])('start rejects an overrides file with the content %j', async (text, line, column, message) => {
    writeFileSync(file, text);
    const error = await start().catch((problem) => problem);
    expect(error).toBeInstanceOf(ConfigError);
    const [problem] = error.problems;
    expect([problem.file, problem.line]).toEqual([file, line]);
    expect(problem.message).toContain(message);
    expect(problem.column).toBe(column);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  test('the start of a service rejects an unreadable or unwritable overrides file', async () => {
    const whole = file;
    file = join(folder, 'none', 'overrides.json');
    await expect(start()).rejects.toThrow(/none\/overrides\.json:1:1: Expected a writable folder/);
    file = folder;
    await expect(start()).rejects.toThrow(/Expected a readable file, got/);
    file = whole;
  });
});
