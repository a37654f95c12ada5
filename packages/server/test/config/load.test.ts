import { execFileSync } from 'node:child_process';
/** Loading of configuration files and folders from disk. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { ConfigError } from '../../src/config/model.ts';
import { pathOf } from './fixtures.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function rejectionOf(...paths: readonly string[]): Promise<string> {
  const error = await loadConfig(paths).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(ConfigError);
  return (error as ConfigError).message.replaceAll(folder, '.');
}

describe('loadConfig', () => {
  it('loadConfig loads a file with any name', async () => {
    const path = write('limits.conf', 'policies: { perMinute: 10/1m }');
    const config = await loadConfig([path]);
    expect(config.files).toEqual([path]);
    expect(config.policies).toHaveLength(1);
  });

  it('loadConfig loads *.yaml and *.yml of a folder, except hidden files', async () => {
    write('b.yaml', 'domain: b');
    write('a.yml', 'domain: a');
    write('c.json', 'not read');
    write('.hidden.yaml', 'not read');
    mkdirSync(join(folder, 'below.d'));
    write('below.d/d.yaml', 'not read');
    const config = await loadConfig([folder]);
    expect(config.files).toEqual([join(folder, 'a.yml'), join(folder, 'b.yaml')]);
    expect(config.domains.map(({ domain }) => domain)).toEqual(['a', 'b']);
  });

  it('loadConfig loads a file once that is listed by itself and by its folder', async () => {
    const path = write('a.yaml', 'domain: a');
    const config = await loadConfig([path, folder, join(folder, '.', 'a.yaml')]);
    expect(config.files).toEqual([path]);
  });

  it('loadConfig follows symbolic links, as in volumes of containers', async () => {
    mkdirSync(join(folder, '..data'));
    write('..data/a.yaml', 'domain: a');
    symlinkSync(join('..data', 'a.yaml'), join(folder, 'a.yaml'));
    expect((await loadConfig([folder])).domains).toHaveLength(1);
  });

  it('loadConfig loads several paths', async () => {
    const config = await loadConfig([pathOf('good/settings-only.yaml'), pathOf('envoy')]);
    expect(config.settings).toHaveProperty('listen', ':8080');
    expect(config.domains.length).toBeGreaterThan(10);
  });
});

describe('unreadable configuration paths', () => {
  it('an unreadable path is reported together with problems of other files', async () => {
    const wrong = write('wrong.yaml', 'policies: { a: wrong }');
    const missing = join(folder, 'missing.yaml');
    expect(await rejectionOf(missing, wrong)).toBe(
      [
        './missing.yaml:1:1: Expected a file or folder, got ENOENT: no such file or directory',
        './wrong.yaml:1:16: Expected policy `a` to be text such as 100/1m, ' +
          'or a map with limit and window, got `"wrong"`',
      ].join('\n'),
    );
  });

  it('unknown policies are not reported if a file is unreadable', async () => {
    const text = 'policies: { a: 1/1s }\nrules: [{ limits: [{ policy: b.c }] }]';
    const expected = await rejectionOf(write('own.yaml', text), join(folder, 'b.yaml'));
    expect(expected).toBe(
      './b.yaml:1:1: Expected a file or folder, got ENOENT: no such file or directory',
    );
  });

  it('loadConfig rejects a folder without files', async () => {
    expect(await rejectionOf(folder)).toBe(
      '.:1:1: Expected a folder with files named *.yaml or *.yml, got none',
    );
  });

  it('loadConfig rejects a folder that is named like a configuration file', async () => {
    mkdirSync(join(folder, 'a.yaml'));
    expect(await rejectionOf(folder)).toBe(
      './a.yaml:1:1: Expected a file, got EISDIR: illegal operation on a directory',
    );
  });

  it('loadConfig rejects a symbolic link to itself', async () => {
    symlinkSync('a.yaml', join(folder, 'a.yaml'));
    expect(await rejectionOf(folder)).toBe(
      './a.yaml:1:1: Expected a file, got ELOOP: too many symbolic links encountered',
    );
  });

  it('loadConfig rejects a file that is not UTF-8', async () => {
    const expected = './a.yaml:1:1: Expected UTF-8, got something else';
    expect(await rejectionOf(write('a.yaml', Buffer.from('domain: \xff', 'latin1')))).toBe(
      expected,
    );
    expect(await rejectionOf(write('a.yaml', Buffer.from('\ufeffdomain: a', 'utf16le')))).toBe(
      expected,
    );
  });

  it('loadConfig rejects a file above 4 MiB', async () => {
    const expected = 'Expected at most 4194304 bytes, got more';
    const most = `domain: a\n#${' '.repeat(4 * 2 ** 20 - 11)}`;
    expect((await loadConfig([write('a.yaml', most)])).domains).toHaveLength(1);
    expect(await rejectionOf(write('a.yaml', `${most} `))).toBe(`./a.yaml:1:1: ${expected}`);
  });

  it('loadConfig rejects an endless device', async () => {
    const expected = 'Expected a file, got a device, which is not a regular file';
    expect(await rejectionOf('/dev/zero')).toBe(`/dev/zero:1:1: ${expected}`);
  });

  it('loadConfig rejects a FIFO without a writer', async () => {
    const path = join(folder, 'fifo.yaml');
    execFileSync('mkfifo', [path]);
    const expected = 'Expected a file, got a FIFO, which is not a regular file';
    expect(await rejectionOf(path)).toBe(`./fifo.yaml:1:1: ${expected}`);
    expect(await rejectionOf(folder)).toBe(`./fifo.yaml:1:1: ${expected}`);
  });

  it('loadConfig rejects an empty list of paths', async () => {
    expect(await rejectionOf()).toBe(
      'configuration:1:1: Expected at least one policy or domain, got none',
    );
  });
});

describe('files of other platforms', () => {
  it('loadConfig accepts a file with a byte order mark', async () => {
    const path = write('a.yaml', '\ufeffpolicies: { a: 1/1s, b: wrong }');
    expect(await rejectionOf(path)).toMatch(/^\.\/a\.yaml:1:25: /);
    expect((await loadConfig([write('b.yaml', '\ufeffdomain: b')])).domains).toHaveLength(1);
  });

  it('loadConfig accepts a file with CRLF line ends', async () => {
    const text = 'policies:\r\n  a: 1/1s\r\n  b: wrong\r\n';
    expect(await rejectionOf(write('a.yaml', text))).toMatch(/^\.\/a\.yaml:3:6: [^\r]*$/);
  });
});
