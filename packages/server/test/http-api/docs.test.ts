/** Runs the commands of docs/http-api.md and compares their output. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { SERVICE_ERRORS } from '../../src/http/problems.ts';
import { MAX_LIMITS_OF_BATCH } from '../../src/http-api/check.ts';
import { MAX_BACKLOG_BYTES } from '../../src/http-api/events.ts';
import { OPERATIONS } from '../../src/http-api/operations.ts';
import {
  MAX_CHECKS,
  MAX_ID_LENGTH,
  MAX_LABEL_LENGTH,
  TickEvent,
} from '../../src/http-api/schemas.ts';
import { MAX_DENIALS } from '../../src/observe/denials.ts';
import { MAX_STREAMS } from '../../src/observe/feed.ts';
import { HISTORY_MINUTES, HISTORY_SECONDS } from '../../src/observe/history.ts';
import { MAX_REPORTED_POLICIES } from '../../src/observe/series.ts';
import { MAX_OVERRIDES } from '../../src/overrides.ts';
import { MAX_SHADOW_OVERRIDES } from '../../src/shadow-overrides.ts';
import { type Running, startRunning } from '../running.ts';

const page = readFileSync(new URL('../../../../docs/http-api.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  ...{ language, text },
}));

const folder = mkdtempSync(join(tmpdir(), 'sluice-page-'));
let running: Running;
beforeAll(async () => {
  const [yaml] = blocks.filter(({ language }) => language === 'yaml');
  const path = join(folder, 'page.yaml');
  writeFileSync(path, yaml.text);
  const load = () => loadConfig([path]);
  running = await startRunning({ config: await load(), load });
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});

/** Replaces times and receipt ids, which differ in each run. */
const normalize = (text: string): string =>
  text
    .replace(/"(atMs|resetAfterMs|retryAfterMs|fence|blockedUntilMs)":[1-9]\d*/g, '"$1":1')
    .replace(/"(startMs|startedAtMs|sinceMs)":\d+/g, '"$1":1')
    .replace(
      /"(cells|allowed|denied|shadowAllowed|shadowDenied|degraded|fullest)":\[[^\]]*\]/g,
      '"$1":[]',
    )
    .replace(/"id":"[\w~-]+"/g, '"id":"a"')
    .replace(/(;t=|Retry-After: )\d+$/gm, '$1N')
    .replaceAll('\r', '')
    .trim();

const run = async (command: string): Promise<string> =>
  (await promisify(execFile)('bash', ['-c', command])).stdout;

describe('docs/http-api.md', () => {
  const examples = blocks.flatMap(({ language, text }, at) =>
    language === 'sh' ? [{ commands: text, printed: blocks[at + 1] }] : [],
  );

  test.each(examples)(
    'the documented output of $commands is correct',
    async ({ commands, printed }) => {
      expect(printed.language).toBe('text');
      const outputs: string[] = [];
      for (const command of commands.trim().split('\n')) {
        outputs.push((await run(command.replaceAll('http://127.0.0.1:8080', running.url))).trim());
      }
      expect(normalize(outputs.join('\n'))).toBe(normalize(printed.text));
    },
  );

  test('docs/http-api.md lists each error code of the service', () => {
    const rows = [...page.matchAll(/^\| `(ERR_\w+)` \| (.+) \|$/gm)];
    expect(rows.map(([, code, meaning]) => [code, meaning])).toEqual(
      Object.entries(SERVICE_ERRORS),
    );
  });

  test('docs/http-api.md lists each status of the OpenAPI document and of Node', () => {
    const rows = [...page.matchAll(/^\| (\d{3}) \| .+ \|$/gm)].map(([, status]) => status);
    const described = OPERATIONS.flatMap(({ responses }) => Object.keys(responses));
    const always = ['400', '401', '403', '404', '405', '408', '413', '431', '500', '503'];
    expect(rows).toEqual([...new Set([...described, ...always])].sort());
  });

  test('the tick shown in docs/http-api.md matches its schema', () => {
    const [{ text }] = blocks.filter(({ language }) => language === 'json');
    expect(TickEvent.strict().parse(JSON.parse(text))).toEqual(JSON.parse(text));
  });

  test('docs/http-api.md states the actual maximum numbers', () => {
    expect(page).toContain(`at most ${HISTORY_SECONDS}`);
    expect(page).toContain(`at most ${HISTORY_MINUTES}`);
    expect(page).toContain(`the ${MAX_REPORTED_POLICIES} busiest policies`);
    expect(page).toContain(`the first ${MAX_DENIALS} keys that match`);
    expect(page).toContain(`at most ${MAX_STREAMS} streams`);
    expect(page).toContain(`leaves ${MAX_BACKLOG_BYTES / 1024} KiB unread`);
    expect(page).toContain(`up to ${MAX_CHECKS} checks`);
    expect(page).toContain(`at most ${MAX_LIMITS_OF_BATCH} limits in all`);
    expect(page).toContain(`up to ${MAX_ID_LENGTH} characters`);
    expect(page).toContain(`up to ${MAX_LABEL_LENGTH} characters`);
    expect(page).toContain(`at most ${MAX_OVERRIDES.toLocaleString('en')} overrides`);
    expect(page).toContain(
      `At most ${MAX_SHADOW_OVERRIDES.toLocaleString('en')} policies can be put`,
    );
  });

  test('docs/http-api.md lists every path that requires no token', () => {
    const open = OPERATIONS.filter(({ isOpen }) => isOpen).map(({ path }) => path);
    const [, section] = page.split('## Authentication\n');
    for (const path of open.filter((each) => !/check|peek|ext-authz/.test(each))) {
      expect(section).toContain(path);
    }
  });
});
