/** Programs with a mistake do not compile, and the message names the mistake. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const folder = mkdtempSync(new URL('wrong-', import.meta.url).pathname);
const compiler = new URL('../../../../node_modules/typescript/bin/tsc', import.meta.url).pathname;

/** The mistake, the adapter, the program after its import, and a part of the message. */
const programs: readonly (readonly [string, string, string, string])[] = [
  [
    'a window with a space',
    'express',
    "rateLimit({ limit: 1, window: '1 hour' });",
    `'"1 hour"' is not assignable`,
  ],
  [
    'a window without a known unit',
    'fastify',
    "const o: FastifyRateLimit = { limit: 1, window: '5 parsecs' };",
    `'"5 parsecs"' is not assignable`,
  ],
  [
    'a plural unit',
    'hono',
    "rateLimit({ limit: 1, window: '5minutes' });",
    `'"5minutes"' is not assignable`,
  ],
  ['a misspelt option', 'express', 'rateLimit({ limti: 1 });', "'limti' does not exist in type"],
  [
    'a misspelt option in a constant',
    'koa',
    "const o: KoaOptions = { limit: 1, windwo: '1m' };",
    "'windwo' does not exist in type",
  ],
  [
    'a misspelt option of a limit in limits',
    'node',
    "rateLimit({ limits: [{ limit: 1, widnow: '1m' }] });",
    "'widnow' does not exist in type",
  ],
  [
    'a limit as text',
    'express',
    "rateLimit({ limit: '5' });",
    "Type 'string' is not assignable to type",
  ],
  [
    'a limit function that returns text',
    'hono',
    "rateLimit({ limit: () => '5' });",
    "Type 'string' is not assignable to type",
  ],
  ['a key by name', 'fetch', "rateLimit({ limit: 1, key: 'ip' });", `'"ip"' is not assignable`],
  [
    'a key function that returns an object',
    'express',
    'rateLimit({ limit: 1, key: (req) => req.query });',
    'is not assignable to type',
  ],
  [
    'an unknown property of the request',
    'express',
    'rateLimit({ limit: 1, keyGenerator: (req) => req.ipAddress });',
    "'ipAddress' does not exist on type 'Request",
  ],
  [
    'an unknown property of the context',
    'koa',
    'rateLimit({ limit: 1, skip: (ctx) => ctx.req.healthy });',
    "'healthy' does not exist on type 'IncomingMessage'",
  ],
  [
    'an unknown header form',
    'express',
    "rateLimit({ limit: 1, headers: 'draft-5' });",
    `'"draft-5"' is not assignable`,
  ],
  [
    'an unknown count',
    'fastify',
    "const o: FastifyRateLimit = { limit: 1, count: 'errors' };",
    `'"errors"' is not assignable`,
  ],
  [
    'trustProxy of true',
    'node',
    'rateLimit({ limit: 1, trustProxy: true });',
    "'boolean' is not assignable",
  ],
  [
    'an unknown failure action',
    'fetch',
    "rateLimit({ limit: 1, onFailure: 'open' });",
    `'"open"' is not assignable`,
  ],
  [
    'an unknown algorithm',
    'hono',
    "rateLimit({ limit: 1, algorithm: 'leaky' });",
    `'"leaky"' is not assignable`,
  ],
  [
    'a deny list as text',
    'nest',
    "RateLimitModule.forRoot({ limit: 1, deny: '10.0.0.0/8' });",
    "'string' is not assignable to type 'readonly string[]'",
  ],
  [
    'a handler without a response',
    'fetch',
    'rateLimit({ limit: 1 })(() => 5);',
    "'number' is not assignable to type",
  ],
  [
    'a fetch option in Express',
    'express',
    "rateLimit({ limit: 1, address: () => '192.0.2.1' });",
    "'address' does not exist in type",
  ],
  [
    'a store that is an address',
    'fetch',
    "rateLimit({ limit: 1, store: 'redis://localhost' });",
    "'string' is not assignable to type 'Store'",
  ],
  [
    'an unchecked decision in Hono',
    'hono',
    "new Hono().get('/', (c) => c.text(c.get('rateLimit').key));",
    "is possibly 'undefined'",
  ],
];

const IMPORTS: Readonly<Record<string, string>> = {
  koa: "import { type KoaOptions, rateLimit } from 'sluice/koa';",
  fastify: "import type { FastifyRateLimit } from 'sluice/fastify';",
  nest: "import { RateLimitModule } from 'sluice/nest';",
  hono: "import { Hono } from 'hono';\nimport { rateLimit } from 'sluice/hono';",
};

/** Compiles all programs at once. Returns the compiler's output. */
function compile(): string {
  for (const [place, [, adapter, program]] of programs.entries()) {
    const imports = IMPORTS[adapter] ?? `import { rateLimit } from 'sluice/${adapter}';`;
    writeFileSync(`${folder}/program-${place}.ts`, `${imports}\n${program}\n`);
  }
  const config = {
    extends: '../../tsconfig.json',
    compilerOptions: { noUnusedLocals: false, types: ['node'] },
    include: ['.'],
  };
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
  try {
    return execFileSync('node', [compiler, '-p', folder, '--pretty', 'false'], {
      encoding: 'utf8',
    });
  } catch (error) {
    return (error as { stdout: string }).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('programs with a mistake', () => {
  const output = compile();

  it.each(programs.map((program, place) => [program[0], place, program[3]] as const))(
    '%s does not compile',
    (_, place, message) => {
      const at = new RegExp(`program-${place}\\.ts\\((\\d+),.*\\n(?: .*\\n)*`, 'g');
      const [error = ''] = output.match(at) ?? [];
      expect(error).toContain(message);
    },
  );
});
