import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fingerprint, readConfigFiles } from '../src/config/files.ts';
import { fingerprintOf, loadConfig } from '../src/config/load.ts';
import { problemText } from '../src/config/model.ts';
import { makeLog } from '../src/observe/log.ts';
import { type ConfigWatch, watchConfig } from '../src/reload/watch-config.ts';
import { valueIn } from './metric-value.ts';
import { type Running, startRunning } from './running.ts';

const textOf = (limit: number | string): string => `policies:\n  few: ${limit}/1h\n`;

let folder: string;
let running: Running | undefined;
let watch: ConfigWatch | undefined;
let logged: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-reload-'));
  logged = [];
});
afterEach(async () => {
  watch?.stop();
  await running?.close();
  rmSync(folder, { recursive: true });
});

const at = (name: string): string => join(folder, name);

/** Starts a service with these files and watches them. */
async function start(...paths: readonly string[]): Promise<Running> {
  const load = () => loadConfig(paths);
  running = await startRunning({ config: await load(), load });
  const log = makeLog({ logLevel: 'info' }, { write: (line: string) => void logged.push(line) });
  watch = await watchConfig({ configuration: running.service.app.configuration, log }, paths);
  return running;
}

const limitNow = async (): Promise<number> =>
  (await running!.post('/v1/peek', { policy: 'few', key: 'k' })).json.limit;

const metric = async (name: string, labels = {}): Promise<number> =>
  Number(valueIn((await running!.get('/metrics')).text, name, labels));
const reloads = (result: 'ok' | 'failed') => metric('sluice_config_reloads_total', { result });

const soon = { timeout: 20_000 };

describe('changed configuration files', () => {
  test('a changed configuration file is reloaded', async () => {
    writeFileSync(at('sluice.yaml'), textOf(1));
    await start(at('sluice.yaml'));
    expect(await limitNow()).toBe(1);
    writeFileSync(at('sluice.yaml'), textOf(2));
    await expect.poll(limitNow, soon).toBe(2);
    expect(await reloads('ok')).toBe(1);
    expect(logged.join('')).toContain('config reloaded');
  });

  test('a configuration file that is replaced repeatedly is reloaded each time', async () => {
    writeFileSync(at('sluice.yaml'), textOf(1));
    await start(at('sluice.yaml'));
    for (let limit = 2; limit < 6; limit++) {
      writeFileSync(at('.sluice.yaml.swp'), textOf(limit));
      renameSync(at('.sluice.yaml.swp'), at('sluice.yaml'));
      await expect.poll(limitNow, soon).toBe(limit);
    }
  });

  test('a configuration file that is removed and restored is reloaded', async () => {
    writeFileSync(at('sluice.yaml'), textOf(1));
    await start(at('sluice.yaml'));
    unlinkSync(at('sluice.yaml'));
    await expect.poll(() => reloads('failed'), soon).toBe(1);
    expect(await limitNow()).toBe(1);
    writeFileSync(at('sluice.yaml'), textOf(2));
    await expect.poll(limitNow, soon).toBe(2);
  });

  test('symbolic links swapped by Kubernetes are reloaded', async () => {
    const put = (version: string, text: string): void => {
      mkdirSync(at(`..${version}`));
      writeFileSync(join(at(`..${version}`), 'sluice.yaml'), text);
      symlinkSync(`..${version}`, at('..data_tmp'));
      renameSync(at('..data_tmp'), at('..data'));
    };
    put('first', textOf(1));
    symlinkSync(join('..data', 'sluice.yaml'), at('sluice.yaml'));
    await start(at('sluice.yaml'));
    expect(await limitNow()).toBe(1);
    put('second', textOf(2));
    rmSync(at('..first'), { recursive: true });
    await expect.poll(limitNow, soon).toBe(2);
    put('third', textOf(3));
    rmSync(at('..second'), { recursive: true });
    await expect.poll(limitNow, soon).toBe(3);
    expect(await reloads('failed')).toBe(0);
  });

  test('a changed target of a symbolic link is reloaded', async () => {
    mkdirSync(at('there'));
    mkdirSync(at('here'));
    writeFileSync(at('there/real.yaml'), textOf(1));
    symlinkSync(at('there/real.yaml'), at('here/sluice.yaml'));
    await start(at('here/sluice.yaml'));
    writeFileSync(at('there/real.yaml'), textOf(2));
    await expect.poll(limitNow, soon).toBe(2);
  });

  test('a configuration folder is reloaded when files are added or removed', async () => {
    mkdirSync(at('policies'));
    writeFileSync(at('policies/a.yaml'), textOf(1));
    await start(at('policies'));
    const { configuration } = running!.service.app;
    const domains = () => configuration.config.domains.map(({ domain }) => domain);
    writeFileSync(at('policies/b.yaml'), 'domain: web\ndescriptors: [{ key: user }]\n');
    await expect.poll(domains, soon).toEqual(['web']);
    unlinkSync(at('policies/b.yaml'));
    await expect.poll(domains, soon).toEqual([]);
  });

  test('a configuration folder that is removed and created again is reloaded', async () => {
    mkdirSync(at('policies'));
    writeFileSync(at('policies/a.yaml'), textOf(1));
    await start(at('policies/a.yaml'));
    rmSync(at('policies'), { recursive: true });
    await expect.poll(() => reloads('failed'), soon).toBe(1);
    mkdirSync(at('policies'));
    writeFileSync(at('policies/a.yaml'), textOf(2));
    await expect.poll(limitNow, soon).toBe(2);
  });
});

describe('unchanged configuration files', () => {
  test('a configuration file with unchanged content is not reloaded', async () => {
    writeFileSync(at('sluice.yaml'), textOf(1));
    await start(at('sluice.yaml'));
    utimesSync(at('sluice.yaml'), 1, 1);
    expect(await watch!.check()).toBeUndefined();
    writeFileSync(at('sluice.yaml'), textOf(1));
    expect(await watch!.check()).toBeUndefined();
    writeFileSync(at('other.yaml'), textOf(9));
    expect(await watch!.check()).toBeUndefined();
    writeFileSync(at('sluice.yaml'), textOf(2));
    expect((await watch!.check())?.ok).toBe(true);
    expect(await watch!.check()).toBeUndefined();
    expect(await reloads('ok')).toBe(1);
  });

  test('a configuration file that changes after the watch stopped is not reloaded', async () => {
    writeFileSync(at('sluice.yaml'), textOf(1));
    await start(at('sluice.yaml'));
    watch!.stop();
    writeFileSync(at('sluice.yaml'), textOf(2));
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(await limitNow()).toBe(1);
  });
});

describe('fingerprint', () => {
  test('the fingerprint of files depends on contents, names and errors, not on times', async () => {
    mkdirSync(at('d'));
    const seen = new Set<string>();
    const paths = [at('d'), at('e.yaml')];
    const addFingerprint = async () => seen.add(await fingerprint(paths));
    await addFingerprint();
    writeFileSync(at('e.yaml'), 'a');
    await addFingerprint();
    writeFileSync(at('d/a.yaml'), '');
    await addFingerprint();
    renameSync(at('d/a.yaml'), at('d/b.yml'));
    await addFingerprint();
    writeFileSync(at('d/b.yml'), 'x');
    await addFingerprint();
    mkdirSync(at('d/c.yaml'));
    await addFingerprint();
    expect(seen.size).toBe(6);
    writeFileSync(at('d/notes.txt'), 'not a configuration');
    utimesSync(at('e.yaml'), 1, 1);
    await addFingerprint();
    expect(seen.size).toBe(6);
  });
});

describe('invalid configuration files', () => {
  test('invalid files are reported in the log, /readyz and metrics', async () => {
    writeFileSync(at('sluice.yaml'), textOf(5));
    await start(at('sluice.yaml'));
    appendFileSync(at('sluice.yaml'), 'rules:\n  - match: { path: /a }\n    limit: 3\n');
    const report = await watch!.check();
    expect(report?.ok).toBe(false);
    const problems = report!.problems.map(problemText);
    expect(problems.join('\n')).toMatch(/sluice\.yaml:5:5: Expected /);
    expect(JSON.parse(logged.at(-1)!)).toMatchObject({ level: 'error', problems });
    const ready = await running!.get('/readyz');
    expect([ready.status, ready.json.config]).toEqual([200, { ok: false, problems }]);
    expect(await metric('sluice_config_bad')).toBe(1);
    expect(await limitNow()).toBe(5);
    writeFileSync(at('sluice.yaml'), textOf(6));
    await watch!.check();
    expect(await limitNow()).toBe(6);
    expect(await metric('sluice_config_bad')).toBe(0);
    expect((await running!.get('/readyz')).json.config).toEqual({ ok: true });
  });
});

describe('reloads under load', () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const RELOADS = process.env.SLUICE_CAMPAIGN === 'full' ? 2000 : 90;

  /** Sends one check on a keep-alive connection. */
  const check = (body: string): Promise<{ status: number; allowed: boolean }> =>
    new Promise((resolve, reject) => {
      const { port } = running!.service.http;
      const outgoing = request({ port, method: 'POST', path: '/v1/check', agent }, (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode!, allowed: JSON.parse(text).allowed }),
        );
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });

  test('repeated reloads under load fail no request and lose no counter', async () => {
    const LIMIT = 500;
    const good = (turn: number): string =>
      `# ${turn}\npolicies:\n  budget: ${LIMIT}/1h\n  few: ${turn + 1}/1h\n`;
    const bad = (turn: number): string =>
      `# ${turn}\npolicies:\n  budget: ${LIMIT}/1h\n  few: none\n`;
    writeFileSync(at('sluice.yaml'), good(0));
    await start(at('sluice.yaml'));
    let isOver = false;
    let admitted = 0;
    let sent = 0;
    const statuses = new Map<number, number>();
    const sendChecks = async (): Promise<void> => {
      while (!isOver) {
        const { status, allowed } = await check('{"policy":"budget","key":"all"}');
        sent++;
        if (allowed) admitted++;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    };
    const callers = Array.from({ length: 8 }, sendChecks);
    let wrong = 0;
    for (let turn = 1; turn <= RELOADS; turn++) {
      const isBad = turn % 3 === 0;
      writeFileSync(at('sluice.yaml'), isBad ? bad(turn) : good(turn));
      const report = await watch!.check();
      // If the watcher has already reloaded the file, `check` returns undefined.
      const { problems } = running!.service.app.configuration;
      expect(report?.ok ?? problems.length === 0).toBe(!isBad);
      if (isBad) wrong++;
      if (isBad) expect(problems.map(problemText)[0]).toContain('sluice.yaml:4:8: Expected');
      else expect(await limitNow()).toBe(turn + 1);
    }
    isOver = true;
    await Promise.all(callers);
    expect([...statuses]).toEqual([[200, sent]]);
    expect(sent).toBeGreaterThan(LIMIT);
    expect(admitted).toBe(LIMIT);
    expect(await reloads('failed')).toBe(wrong);
    expect(await reloads('ok')).toBe(RELOADS - wrong);
    expect(logged.filter((line) => line.includes('config rejected')).length).toBe(wrong);
    agent.destroy();
  });
});

describe('files that change during the start', () => {
  test('a file that changed during the start is reloaded', async () => {
    const path = at('sluice.yaml');
    writeFileSync(path, textOf(1));
    const config = await loadConfig([path]);
    const known = fingerprintOf(config);
    // Between the first load and the start of the watch.
    writeFileSync(path, textOf(2));
    running = await startRunning({ config, load: () => loadConfig([path]) });
    const { configuration } = running.service.app;
    const log = makeLog({ logLevel: 'info' }, { write: (line: string) => void logged.push(line) });
    watch = await watchConfig({ configuration, log }, [path], { fingerprint: known });
    await expect.poll(limitNow, soon).toBe(2);
  });

  test('a file that changed while it was parsed is reloaded', async () => {
    const path = at('sluice.yaml');
    writeFileSync(path, textOf(1));
    const config = await loadConfig([path]);
    let isFirst = true;
    const load = async () => {
      const loaded = await loadConfig([path]);
      // The file changes after its bytes were read.
      if (isFirst) writeFileSync(path, textOf(3));
      isFirst = false;
      return loaded;
    };
    running = await startRunning({ config, load });
    const { configuration } = running.service.app;
    const log = makeLog({ logLevel: 'info' }, { write: (line: string) => void logged.push(line) });
    watch = await watchConfig({ configuration, log }, [path], {});
    writeFileSync(path, textOf(2));
    await expect.poll(limitNow, soon).toBe(3);
  });
});

describe('unreadable configuration paths', () => {
  test('a FIFO is reported once, and a regular file in its place is reloaded', async () => {
    const path = at('sluice.yaml');
    writeFileSync(path, textOf(1));
    await start(path);
    unlinkSync(path);
    execFileSync('mkfifo', [path]);
    await expect.poll(() => logged.join(''), soon).toContain('a FIFO, which is not a regular file');
    expect(await limitNow()).toBe(1);
    // Neither a check nor a reload waits for a writer of the FIFO.
    expect(await watch!.check()).toBeUndefined();
    expect((await running!.service.app.configuration.reload()).ok).toBe(false);
    unlinkSync(path);
    writeFileSync(path, textOf(2));
    await expect.poll(limitNow, soon).toBe(2);
  });

  test('a hung file system is reported after a deadline', async () => {
    const path = at('sluice.yaml');
    writeFileSync(path, textOf(1));
    let reads = 0;
    let respond: (bytes: Buffer) => void = () => {};
    const readFile = (): Promise<Buffer> => {
      reads++;
      return new Promise((resolve) => {
        respond = resolve;
      });
    };
    const options = { deadlineMs: 20, readFile };
    for (let round = 0; round < 5; round++) {
      const { files } = await readConfigFiles([path], options);
      expect(files[0].problem).toContain('Expected the file system to respond within 20 ms');
    }
    // Repeated reads share one pending read.
    expect(reads).toBe(1);
    respond(Buffer.from('late'));
    await new Promise((resolve) => setImmediate(resolve));
    const { files } = await readConfigFiles([path]);
    expect(String(files[0].bytes)).toBe(textOf(1));
  });
});

describe('POST /v1/reload', () => {
  const reloadedAt = () => metric('sluice_config_last_reload_success_timestamp_seconds');
  const post = async () => {
    const { status, json } = await running!.post('/v1/reload', undefined);
    return [status, json.changed];
  };

  test('POST /v1/reload of unchanged files is not counted', async () => {
    writeFileSync(at('a.yaml'), textOf(5));
    await start(at('a.yaml'));
    // Otherwise the watcher would reload the changes below as well.
    watch!.stop();
    const startedAt = await reloadedAt();
    expect(await post()).toEqual([200, false]);
    expect([await reloads('ok'), await reloads('failed')]).toEqual([0, 0]);
    expect(await reloadedAt()).toBe(startedAt);

    writeFileSync(at('a.yaml'), textOf(6));
    expect([await post(), await limitNow()]).toEqual([[200, true], 6]);
    expect(await post()).toEqual([200, false]);
    expect([await reloads('ok'), await reloads('failed')]).toEqual([1, 0]);
    expect(await reloadedAt()).toBeGreaterThan(startedAt);

    writeFileSync(at('a.yaml'), 'policies: [');
    expect([(await post())[0], (await post())[0], await limitNow()]).toEqual([422, 422, 6]);
    expect([await reloads('ok'), await reloads('failed')]).toEqual([1, 1]);

    // The files match the active configuration, but the last reload failed.
    writeFileSync(at('a.yaml'), textOf(6));
    expect(await post()).toEqual([200, true]);
    expect([await reloads('ok'), await metric('sluice_config_bad')]).toEqual([2, 0]);
  });
});
