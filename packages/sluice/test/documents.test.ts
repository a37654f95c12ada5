/** Runs every TypeScript block of the documents and compares its output with the page. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { format } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { COMMON_NAMES } from '../../traffic/src/formats/named.ts';

const root = new URL('../../../', import.meta.url);
const folder = mkdtempSync(new URL('documents-', import.meta.url).pathname);
const TOKEN = 'secret';
let redis: RedisServer;
let client: Redis;

/** Redis over HTTP, as hosted services offer it: replies with `result` or `error`. */
const overHttp = createServer(async (request, response) => {
  expect(request.headers.authorization).toBe(`Bearer ${TOKEN}`);
  const [command, ...args]: string[] = JSON.parse(await textOf(request));
  const reply = await client.call(command, args).then(
    (result) => ({ result }),
    (error: Error) => ({ error: error.message }),
  );
  response.end(JSON.stringify(reply));
});

/** Sets the environment variables that the pages read. */
beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  await new Promise<void>((resolve) => overHttp.listen(0, '127.0.0.1', resolve));
  vi.stubEnv('REDIS_URL', redis.url);
  vi.stubEnv('REDIS_HTTP_URL', `http://127.0.0.1:${(overHttp.address() as AddressInfo).port}`);
  vi.stubEnv('REDIS_HTTP_TOKEN', TOKEN);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  overHttp.close();
  overHttp.closeAllConnections();
  client.disconnect();
  await redis.stop();
  rmSync(folder, { recursive: true });
});

const packages = readdirSync(new URL('packages', root), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path}`),
  ...packages.map((name) => `packages/${name}/README.md`),
];

const tests = ['packages/sluice/test', 'bench/test'].flatMap((path) =>
  readdirSync(new URL(path, root), { recursive: true, encoding: 'utf8' }).map((file) =>
    file.replace(/^.*\//, ''),
  ),
);

interface Block {
  readonly language: string;
  readonly text: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(new URL(page, root), 'utf8');
  const found = text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm);
  return [...found].map(([, language, body]) => ({ language, text: body }));
}

describe.each(pages)('%s', (page) => {
  const blocks = blocksOf(page);

  it(`${page} has only code blocks that a test runs or loads`, () => {
    // packed.test.ts runs the `js` block. The tests of the server load the `yaml` blocks and send
    // the `http` block.
    const tested = [
      'ts',
      'text',
      'sh',
      'tree',
      'yaml',
      'json',
      ...(page === 'README.md' ? ['js'] : []),
      ...(page === 'docs/http-api.md' ? ['http'] : []),
    ];
    expect(blocks.filter(({ language }) => !tested.includes(language))).toEqual([]);
  });

  for (const [place, { language, text }] of blocks.entries()) {
    if (language !== 'ts') continue;
    it(`${page} shows the output of code block ${place}`, async () => {
      const expected = blocks[place + 1];
      expect(expected?.language).toBe('text');
      const file = `${folder}/${page.replaceAll(/\W/g, '-')}-${place}.ts`;
      writeFileSync(file, text);
      const printed: string[] = [];
      const log = vi.spyOn(console, 'log').mockImplementation((...values) => {
        printed.push(format(...values));
      });
      await import(file);
      log.mockRestore();
      expect(`${printed.join('\n')}\n`).toBe(expected.text);
    });
  }

  it(`${page} names only tests that exist`, () => {
    const text = readFileSync(new URL(page, root), 'utf8');
    for (const [name] of text.matchAll(/\b[a-z][a-z-]*\.test\.ts/g)) expect(tests).toContain(name);
  });

  it(`${page} links only to pages that exist`, () => {
    const text = readFileSync(new URL(page, root), 'utf8');
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
      expect(existsSync(new URL(target, new URL(page, root))), target).toBe(true);
    }
  });
});

it('docs/choosing-a-limit.md lists the recognized names of log columns', () => {
  const page = readFileSync(new URL('docs/choosing-a-limit.md', root), 'utf8');
  for (const [part, names] of Object.entries(COMMON_NAMES)) {
    const shown = names.map((name) => `\`${name}\``).join(' ');
    expect(page).toMatch(
      new RegExp(`^\\| \`${part}\` \\| ${shown.replaceAll('.', '\\.')}(:.*)? \\|$`, 'm'),
    );
  }
});

it('every package has a README and the licence', () => {
  const licence = readFileSync(new URL('LICENSE', root), 'utf8');
  for (const name of packages) {
    expect(existsSync(new URL(`packages/${name}/README.md`, root)), name).toBe(true);
    expect(readFileSync(new URL(`packages/${name}/LICENSE`, root), 'utf8')).toBe(licence);
  }
});
