import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import {
  fileKeyOf,
  flagOf,
  readSettings,
  SETTING_NAMES,
  SETTINGS,
  SettingsError,
  shownSettings,
  variableOf,
} from '../src/settings.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));

const TOKEN = 'a-token-that-is-hard-to-guess';

function problemsOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  throw new Error('the settings were accepted');
}

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('SETTINGS', () => {
  test('each setting has a flag, an environment variable and a field', () => {
    expect(flagOf('deadlineMs')).toBe('--deadline');
    expect(variableOf('deadlineMs')).toBe('SLUICE_DEADLINE');
    expect(fileKeyOf('deadlineMs')).toBe('deadline');
    expect(flagOf('ipv6Prefix')).toBe('--ipv6-prefix');
    expect(variableOf('ipv6Prefix')).toBe('SLUICE_IPV6_PREFIX');
    const flags = new Set(SETTING_NAMES.map(flagOf));
    expect(flags.size).toBe(SETTING_NAMES.length);
  });

  test('the help of a setting contains its choices and its default', () => {
    expect(SETTINGS.onFailure.help).toBe(
      'Action when the store is unavailable: allow, deny, local, throw (default: local)',
    );
    for (const name of SETTING_NAMES) expect(SETTINGS[name].help, name).toMatch(/^[A-Z].*[^.]$/);
  });
});

describe('precedence of sources', () => {
  const environment = { SLUICE_PREFIX: 'environment:' };
  const inFile = { prefix: 'file:' };

  test.each([
    [{ prefix: 'flag:' }, environment, inFile, 'flag:', 'flag'],
    [{}, environment, inFile, 'environment:', 'environment'],
    [{}, {}, inFile, 'file:', 'file'],
    [{}, {}, {}, 's:', 'default'],
    [{}, { SLUICE_PREFIX: '' }, inFile, 'file:', 'file'],
  ])(
    'flags %j, variables %j and file %j set the prefix %s',
    (flags, variables, settings, value, from) => {
      const read = readSettings(flags, variables, settings);
      expect(read.settings.prefix).toBe(value);
      expect(read.sources.prefix).toBe(from);
    },
  );

  test('a setting with lower precedence is not validated', () => {
    expect(readSettings({ workers: '2' }, { SLUICE_WORKERS: 'x' }, {}).settings.workers).toBe(2);
  });
});

describe('values of settings', () => {
  test.each([
    ['listen', '127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['listen', '9090', { host: '127.0.0.1', port: 9090 }],
    ['listen', 9090, { host: '127.0.0.1', port: 9090 }],
    ['listen', '[::1]:80', { host: '::1', port: 80 }],
    ['grpc', ':8081', { host: '::', port: 8081 }],
    ['deadlineMs', '250ms', 250],
    ['deadlineMs', 20, 20],
    ['drainMs', '1m', 60_000],
    ['trustProxy', '2', 2],
    ['trustProxy', '10.0.0.0/8, loopback', ['10.0.0.0/8', 'loopback']],
    ['trustProxy', ['::1'], ['::1']],
    ['localShare', '0.25', 0.25],
    ['adminToken', 'ein Schlüssel für alles', 'ein Schlüssel für alles'],
    ['config', 'a.yaml,b', ['a.yaml', 'b']],
    ['store', 'redis+cluster://a:1,b:2', 'redis+cluster://a:1,b:2'],
    ['grafanaUrl', 'http://127.0.0.1:3000/d/sluice', 'http://127.0.0.1:3000/d/sluice'],
  ] as const)('the setting %s accepts %j', (name, given, value) => {
    expect(SETTINGS[name].read(given)).toEqual(value);
  });

  test.each([
    ['listen', 'nowhere'],
    ['listen', '127.0.0.1:65536'],
    ['listen', '::1:80'],
    ['listen', ['8080']],
    ['listen', -1],
    ['deadlineMs', '0ms'],
    ['deadlineMs', 0],
    ['deadlineMs', '61m'],
    ['deadlineMs', '1.5s'],
    ['deadlineMs', ['5']],
    ['trustProxy', '0'],
    ['trustProxy', 'unknown-name'],
    ['trustProxy', '0.0.0.0/0'],
    ['trustProxy', '10.0.0.1/8'],
    ['trustProxy', []],
    ['localShare', '0'],
    ['localShare', '1.1'],
    ['localShare', ''],
    ['ipv6Prefix', '16'],
    ['workers', '65'],
    ['workers', '1e1'],
    ['store', 'http://127.0.0.1'],
    ['store', 'redis://'],
    ['adminToken', 'short'],
    ['adminToken', ' sixteen and more, and a space'],
    ['adminToken', 'sixteen and more\nin two lines'],
    ['headers', 'draft-8'],
    ['onFailure', 'toString'],
    ['logLevel', 'loud'],
    ['config', ''],
    ['grafanaUrl', 'javascript:alert(1)'],
    ['grafanaUrl', 'grafana.example'],
    ['grafanaUrl', 'https://'],
  ] as const)('the setting %s rejects %j', (name, given) => {
    expect(SETTINGS[name].read(given)).toBeUndefined();
    const [problem] = problemsOf(() => readSettings({ [name]: given }, {}, {}));
    expect(problem).toMatch(new RegExp(`^Expected ${flagOf(name)} to be .+, got .+`));
  });

  test('all problems of settings are reported together, each with its source', () => {
    const read = () => readSettings({ workers: 'x' }, { SLUICE_HEADERS: 'y' }, { drainMs: 'z' });
    expect(problemsOf(read)).toEqual([
      'Expected SLUICE_HEADERS to be one of draft, draft-7, draft-6, legacy, none, got `"y"`',
      'Expected --workers to be an integer from 1 to 64, got `"x"`',
      'Expected `drain` to be a duration from 1ms to 60m, such as 15ms or 10s, got `"z"`',
    ]);
  });
});

describe('settings that depend on each other', () => {
  test('a TLS certificate without a key is rejected', () => {
    const [problem] = problemsOf(() => readSettings({ tlsCert: 'a.pem' }, {}, {}));
    expect(problem).toContain('--tls-cert and --tls-key together');
  });

  test.each([':8080', '0.0.0.0:80', '10.0.0.1:80', '[::]:80', 'example.com:80'])(
    'listening on %s requires an admin token',
    (listen) => {
      const [problem] = problemsOf(() => readSettings({ listen }, {}, {}));
      expect(problem).toContain('can be reached from other machines');
      expect(() => readSettings({ listen, adminToken: TOKEN }, {}, {})).not.toThrow();
    },
  );

  test.each(['127.0.0.1:80', '127.9.9.9:80', '[::1]:80', 'localhost:80', '80'])(
    'listening on %s does not require an admin token',
    (listen) => {
      expect(() => readSettings({ listen }, {}, {})).not.toThrow();
    },
  );
});

describe('adminTokenFile', () => {
  test('the admin token file is read without its final line break', () => {
    const adminTokenFile = file('token', `${TOKEN}\n`);
    const { settings, sources } = readSettings({ adminTokenFile, listen: ':80' }, {}, {});
    expect(settings.adminToken).toBe(TOKEN);
    expect(sources.adminToken).toBe('flag');
  });

  test('the admin token file has the precedence of the source that names it', () => {
    const path = file('token-2', TOKEN);
    const other = 'another-token-of-16-characters';
    const before = readSettings({ adminTokenFile: path }, { SLUICE_ADMIN_TOKEN: other }, {});
    expect(before.settings.adminToken).toBe(TOKEN);
    const after = readSettings({ adminToken: other }, { SLUICE_ADMIN_TOKEN_FILE: path }, {});
    expect(after.settings.adminToken).toBe(other);
    expect(after.sources.adminToken).toBe('flag');
  });

  test('an admin token file beside a token of the same source is rejected', () => {
    const flags = { adminTokenFile: file('token-3', TOKEN), adminToken: TOKEN };
    expect(problemsOf(() => readSettings(flags, {}, {}))).toEqual([
      'Expected --admin-token or --admin-token-file, got both',
    ]);
  });

  test('an invalid admin token file is rejected without showing its content', () => {
    const absent = join(folder, 'absent');
    expect(problemsOf(() => readSettings({ adminTokenFile: absent }, {}, {}))).toEqual([
      `Expected \`${absent}\` to be a readable file, got ENOENT`,
    ]);
    const [problem] = problemsOf(() =>
      readSettings({ adminTokenFile: file('bad', 'hush'), listen: ':80' }, {}, {}),
    );
    expect(problem).toContain('to contain at least 16 visible characters, got 4 characters');
    expect(problem).not.toContain('hush');
  });
});

describe('shownSettings', () => {
  test('shownSettings hides secrets and contains the source of each value', () => {
    const flags = { adminToken: TOKEN, store: 'redis://me:hunter2@host:6379/0' };
    const shown = shownSettings(readSettings(flags, { SLUICE_WORKERS: '2' }, {}));
    expect(shown).toMatchObject({
      adminToken: { value: '***', from: 'flag' },
      store: { value: 'redis://***@host:6379/0', from: 'flag' },
      workers: { value: 2, from: 'environment' },
      listen: { value: '127.0.0.1:8080', from: 'default' },
      grpc: { value: null, from: 'default' },
    });
    expect(JSON.stringify(shown)).not.toMatch(/hunter2|hard-to-guess/);
  });

  test('problems of settings do not contain secrets', () => {
    const read = () =>
      readSettings({ adminToken: 'hunter2', store: 'redsi://a:hunter2@b' }, {}, {});
    expect(problemsOf(read).join('\n')).not.toContain('hunter2');
  });

  test.each([
    ['store', 'postgres://me:hunter2@b', 'an address that begins with `postgres://`'],
    ['store', 'redis://', '`redis://` without a host'],
    ['store', 'hunter2:6379', 'text without ://'],
    ['store', 6379, 'something else'],
    ['adminToken', 'x', '1 character'],
    ['adminToken', 'hunter2', '7 characters'],
    ['adminToken', 'hunter2 and more\nof it', '22, not all of them visible'],
    ['adminToken', 1_000_000, 'something else'],
  ] as const)(
    'the problem of the setting %s with the value %j shows only "%s"',
    (name, given, hint) => {
      const [problem] = problemsOf(() => readSettings({ [name]: given }, {}, {}));
      expect(problem.endsWith(`, got ${hint}`)).toBe(true);
    },
  );
});
