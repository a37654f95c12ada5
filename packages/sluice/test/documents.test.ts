/** Every block of TypeScript in the documents is run, and what it prints is what the page says. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { format } from 'node:util';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../../tools/servers/redis.mjs';
import { USUAL } from '../../traffic/src/formats/named.ts';

const root = new URL('../../../', import.meta.url);
const folder = mkdtempSync(new URL('documents-', import.meta.url).pathname);
const TOKEN = 'secret';
let redis: RedisServer;
let client: Redis;

/** Redis over HTTP, as some sell it: a command as a list, `result` or `error` as the answer. */
const overHttp = createServer(async (request, response) => {
  expect(request.headers.authorization).toBe(`Bearer ${TOKEN}`);
  const [command, ...args]: string[] = JSON.parse(await textOf(request));
  const answer = await client.call(command, args).then(
    (result) => ({ result }),
    (error: Error) => ({ error: error.message }),
  );
  response.end(JSON.stringify(answer));
});

/** The pages find their Redis where their readers would put it. */
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

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path}`),
  ...readdirSync(new URL('packages', root)).map((name) => `packages/${name}/README.md`),
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

  it('has no blocks that nobody runs', () => {
    // The one of `js` is run by packed.test.ts, in a folder of its own; those of `yaml` are loaded
    // by the tests of the server's configuration, and the one of `http` is asked by those of
    // sessions.
    const known = [
      'ts',
      'text',
      'sh',
      'tree',
      'yaml',
      'json',
      ...(page === 'README.md' ? ['js'] : []),
      ...(page === 'docs/http-api.md' ? ['http'] : []),
    ];
    expect(blocks.filter(({ language }) => !known.includes(language))).toEqual([]);
  });

  for (const [place, { language, text }] of blocks.entries()) {
    if (language !== 'ts') continue;
    it(`block ${place} prints what the page says`, async () => {
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

  it('names tests that exist', () => {
    const text = readFileSync(new URL(page, root), 'utf8');
    for (const [name] of text.matchAll(/\b[a-z][a-z-]*\.test\.ts/g)) expect(tests).toContain(name);
  });

  it('links to pages that exist', () => {
    const text = readFileSync(new URL(page, root), 'utf8');
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
      expect(existsSync(new URL(target, new URL(page, root))), target).toBe(true);
    }
  });
});

it('docs/choosing-a-limit.md has the names that columns of logs are known by', () => {
  const page = readFileSync(new URL('docs/choosing-a-limit.md', root), 'utf8');
  for (const [part, names] of Object.entries(USUAL)) {
    const shown = names.map((name) => `\`${name}\``).join(' ');
    expect(page).toMatch(
      new RegExp(`^\\| \`${part}\` \\| ${shown.replaceAll('.', '\\.')}(:.*)? \\|$`, 'm'),
    );
  }
});

it('every package is published with a page and the licence', () => {
  const licence = readFileSync(new URL('LICENSE', root), 'utf8');
  for (const name of readdirSync(new URL('packages', root))) {
    expect(existsSync(new URL(`packages/${name}/README.md`, root)), name).toBe(true);
    expect(readFileSync(new URL(`packages/${name}/LICENSE`, root), 'utf8')).toBe(licence);
  }
});
