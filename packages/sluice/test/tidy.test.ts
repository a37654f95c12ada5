import { describe, expect, test } from 'vitest';
// @ts-expect-error The tool is plain JavaScript: its types are declared below.
import * as tool from '../../../tools/tidy.mjs';

interface SourceFile {
  readonly path: string;
  readonly text: string;
}

interface Violation {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

interface Rule {
  readonly name: string;
  readonly check: (files: readonly SourceFile[]) => Violation[];
}

const rules: readonly Rule[] = tool.rules;
const { ALLOWED_PHRASES, plainLanguage } = tool as {
  ALLOWED_PHRASES: readonly [path: string, excerpt: string][];
  plainLanguage: (allowed: typeof ALLOWED_PHRASES) => Rule['check'];
};
const realTree: (files: readonly SourceFile[]) => string[] = tool.realTree;

const SRC = 'packages/sluice/src/';

/** Returns the violations of a rule in files, by path. */
function found(name: string, files: Record<string, string>): string[] {
  const rule = rules.find((each) => each.name === name);
  if (!rule) throw new Error(`there is no rule ${name}`);
  return rule
    .check(Object.entries(files).map(([path, text]) => ({ path, text })))
    .map(({ path, line, message }) => `${path}:${line}: ${message}`);
}

/** Returns the violations of a rule in one source file. */
const foundIn = (name: string, path: string, text: string) => found(name, { [SRC + path]: text });

const linesOf = (count: number) => 'const a = 1;\n'.repeat(count);

test('the tests in this file cover every rule', () => {
  expect(rules.map(({ name }) => name)).toEqual([
    'import rules',
    'no import circles',
    'file length',
    'function length',
    'line length',
    'time only in the clock',
    'no left-overs',
    'plain language',
    'no printing',
    'all tests run',
    'no stray root entries',
    'one name in all places',
    'the tree is the real one',
  ]);
});

describe('import rules', () => {
  test.each([
    ['algorithms/a.ts', "import { b } from '../clock.ts';", 'algorithms/ may not import clock.ts'],
    ['stores/m/a.ts', "import '../n/b.ts';", 'stores/ may not import stores/n/b.ts'],
    ['stores/m/a.ts', "import '../../limiter.ts';", 'stores/ may not import limiter.ts'],
    ['errors.ts', "import type { A } from './key.ts';", 'errors.ts may not import key.ts'],
    ['clock.ts', "export * from './key.ts';", 'clock.ts may not import key.ts'],
    ['decision.ts', "export { a } from './key.ts';", 'decision.ts may not import key.ts'],
    ['key.ts', "type A = import('./clock.ts').A;", 'key.ts may not import clock.ts'],
    ['limiter.ts', "import { a } from './index.ts';", 'limiter.ts may not import index.ts'],
    [
      'policy-registry.ts',
      "await import('./testing/a.ts');",
      'policy-registry.ts may not import testing/a.ts',
    ],
    ['index.ts', "export { a } from './testing/a.ts';", 'index.ts may not import testing/a.ts'],
    ['testing/a.ts', "import { a } from '../index.ts';", 'testing/ may not import index.ts'],
    ['limiter.ts', "import '../test/a.ts';", 'limiter.ts may not import ../test/a.ts'],
    ['new.ts', '', 'has no row in the table of import rules'],
  ])('import rules reject in %s: %s', (path, text, message) => {
    expect(foundIn('import rules', path, text)).toEqual([`${SRC + path}:1: ${message}`]);
  });

  test.each([
    ['api.ts', "import { type A } from './decision.ts';", 'decision.ts'],
    ['store.ts', "import { a } from './decision.ts';", 'decision.ts'],
  ])('a type-only import rule of %s rejects values', (path, text, target) => {
    expect(foundIn('import rules', path, text)).toEqual([
      `${SRC + path}:1: ${path} may not import ${target} except as types`,
    ]);
    const asTypes = text.replace(/import \{(?: type)?/, 'import type {');
    expect(foundIn('import rules', path, asTypes)).toEqual([]);
  });

  test.each(['node:fs', 'zod', 'sluice'])('the core may not import the package %s', (name) => {
    expect(foundIn('import rules', 'limiter.ts', `\nimport '${name}';`)).toEqual([
      `${SRC}limiter.ts:2: limiter.ts may not import package ${name}`,
    ]);
  });

  test('an import of a computed name is rejected', () => {
    expect(foundIn('import rules', 'policy-registry.ts', 'await import(name);')).toHaveLength(1);
  });

  test.each([
    ['algorithms/a.ts', "import { b } from './b.ts';"],
    ['stores/m/a.ts', "import './b.ts'; import '../../policy.ts'; import '../../errors.ts';"],
    [
      'limiter.ts',
      "import { a } from './stores/m/a.ts'; import { b } from './policy-registry.ts';",
    ],
    ['testing/a.ts', "import { a } from './b.ts'; import { b } from '../limiter.ts';"],
    ['clock.ts', "// import { a } from './limiter.ts';"],
  ])('import rules accept in %s: %s', (path, text) => {
    expect(foundIn('import rules', path, text)).toEqual([]);
  });
});

describe('import circles', () => {
  const circle = {
    [`${SRC}policy-registry.ts`]: "import type { A } from './limiter.ts';",
    [`${SRC}limiter.ts`]: "import './store.ts';\nimport { b } from './policy-registry.ts';",
    [`${SRC}store.ts`]: '',
  };

  const circleText = 'policy-registry.ts -> limiter.ts -> policy-registry.ts';

  test('an import circle is reported with all its files, even if it has only types', () => {
    expect(found('no import circles', circle)).toEqual([
      `${SRC}limiter.ts:2: imports in a circle: ${circleText}`,
    ]);
  });

  test('two import paths to one file are not a circle', () => {
    const broken = { ...circle, [`${SRC}policy-registry.ts`]: "import './store.ts';" };
    expect(found('no import circles', broken)).toEqual([]);
  });
});

describe('lengths', () => {
  test('a file has at most 400 lines', () => {
    expect(found('file length', { 'tools/a.mjs': linesOf(400), 'a.md': linesOf(401) })).toEqual([]);
    expect(found('file length', { 'tools/a.mjs': linesOf(401) })).toEqual([
      'tools/a.mjs:401: 401 lines, at most 400',
    ]);
    expect(found('file length', { 'a.lua': linesOf(401) })).toHaveLength(1);
    expect(found('file length', { 'packages/a/test/vectors/a.ts': linesOf(401) })).toEqual([]);
  });

  test.each([
    ['function', (body: string) => `\nfunction f() {\n${body}}`],
    ['arrow function', (body: string) => `\nconst f = () => {\n${body}};`],
    ['method', (body: string) => `class A {\nm() {\n${body}}\n}`],
    ['function in an object', (body: string) => `const a = {\nf() {\n${body}} };`],
  ])('a %s has at most 80 lines', (_kind, write) => {
    expect(foundIn('function length', 'a.ts', write(linesOf(78)))).toEqual([]);
    expect(foundIn('function length', 'a.ts', write(linesOf(79)))).toEqual([
      `${SRC}a.ts:2: function of 81 lines, at most 80`,
    ]);
    expect(found('function length', { 'bench/a.mjs': write(linesOf(79)) })).toHaveLength(1);
    expect(found('function length', { 'packages/a/test/a.ts': write(linesOf(79)) })).toEqual([]);
  });

  test('a line has at most 100 columns, regardless of their bytes', () => {
    expect(found('line length', { 'tools/a.mjs': `${'é'.repeat(100)}\n` })).toEqual([]);
    expect(found('line length', { 'tools/a.mjs': `\n${'é'.repeat(101)}\n` })).toEqual([
      'tools/a.mjs:2: 101 columns, at most 100',
    ]);
  });
});

describe('time only in the clock', () => {
  test.each([
    'Date.now()',
    'new Date(0)',
    'performance.now()',
    'setTimeout(() => {}, 1)',
    'globalThis.setInterval(() => {}, 1)',
  ])('%s is rejected outside clock.ts', (read) => {
    expect(foundIn('time only in the clock', 'limiter.ts', `\nconst a = ${read};`)).toEqual([
      expect.stringMatching(/limiter\.ts:2: .* outside clock\.ts$/),
    ]);
    expect(foundIn('time only in the clock', 'clock.ts', `const a = ${read};`)).toEqual([]);
  });

  test('comments and strings may mention the time', () => {
    const text = "// Date.now() lies.\nconst a = 'new Date(0)'; /* setTimeout(f) */";
    expect(foundIn('time only in the clock', 'limiter.ts', text)).toEqual([]);
  });
});

describe('forbidden text', () => {
  // Concatenated, so that the rule does not find them in this file.
  test.each(['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX', 'HA' + 'CK'])(
    'no file may contain %s',
    (marker) => {
      expect(found('no left-overs', { 'docs/a.md': `fine\n${marker}: later` })).toEqual([
        `docs/a.md:2: ${marker} is left over`,
      ]);
    },
  );

  test('no file may contain the host of a registry', () => {
    const host = `https:${'//'}registry.example.org/a`;
    expect(found('no left-overs', { 'package-lock.json': `"resolved": "${host}"` })).toHaveLength(
      1,
    );
  });

  test('text that resembles a forbidden marker is allowed', () => {
    expect(found('no left-overs', { 'README.md': 'hackney, todos and a registry.' })).toEqual([]);
  });

  test('the core may not print', () => {
    const text = 'console.log(1);';
    expect(foundIn('no printing', 'policy-registry.ts', text)).toEqual([
      `${SRC}policy-registry.ts:1: console.log in the core`,
    ]);
    expect(found('no printing', { 'tools/a.mjs': text })).toEqual([]);
  });

  test.each(['test.only(f)', 'describe.skip(f)', "test.todo('a')", 'test.only.each([])(f)'])(
    'a test may not be disabled by %s',
    (call) => {
      expect(found('all tests run', { 'a.test.ts': `\n${call};` })).toHaveLength(1);
      expect(found('all tests run', { 'a.test.ts': `// ${call}\nconst a = \`${call}\`;` })).toEqual(
        [],
      );
    },
  );
});

describe('plain language', () => {
  const foundPhrases = (path: string, text: string, allowed: typeof ALLOWED_PHRASES = []) =>
    plainLanguage(allowed)([{ path, text }]).map(({ line, message }) => `${line}: ${message}`);

  // In two pieces, so that the rule does not find them in this file.
  const told = 'to' + 'ld';
  const phrases = [
    ...['who' + 'ever', 'no' + 'body', 'some' + 'body', 'every' + 'body', 'any' + 'body', told],
    ...['made ' + 'sound', 'as ' + 'new', `unless ${told}`, 'is ' + 'away', 'give ' + 'back'],
    ...['gives ' + 'back', 'those ' + 'who', 'that ' + 'which', 'short ' + 'way', 'long ' + 'way'],
  ];

  test.each(phrases)('"%s" is rejected in documents, comments, strings and templates', (phrase) => {
    const found = phrase.replace('unless ', '');
    const message = `"${found}" is vague: use an established term`;
    for (const path of ['docs/a.md', 'deploy/a.yaml', 'a.lua', 'Dockerfile', '.ci/run']) {
      expect(foundPhrases(path, `fine\nIt ${phrase}.`)).toEqual([`2: ${message}`]);
    }
    for (const code of [
      `// ${phrase}`,
      `/* ${phrase} */`,
      `f('${phrase}');`,
      `f(\`\${1} ${phrase}\`);`,
    ]) {
      expect(foundPhrases('packages/a/src/a.ts', `\n${code}`)).toEqual([`2: ${message}`]);
    }
  });

  test('a vague phrase at the start of a sentence is rejected', () => {
    expect(foundPhrases('docs/a.md', `${'No' + 'body'} knows.`)).toHaveLength(1);
  });

  test.each([
    ['docs/a.md', 'It gives\nback'],
    ['a.ts', '/**\n * It gives\n * back.\n */'],
    ['a.ts', '// It gives\n// back.'],
    ['a.lua', '-- It gives\n-- back.'],
  ])('a vague phrase that continues on the next line of %s is rejected', (path, text) => {
    expect(foundPhrases(path, text)).toEqual([
      `${text.startsWith('/**') ? 2 : 1}: "gives ${'back'}" is vague: use an established term`,
    ]);
  });

  test('identifiers, longer words, test data and generated files are not checked', () => {
    expect(foundPhrases('a.ts', `const ${told} = 1;`)).toEqual([]);
    expect(foundPhrases('docs/a.md', 'untoldness, as newer, is awayday')).toEqual([]);
    expect(foundPhrases('packages/a/test/a.yaml', told)).toEqual([]);
    expect(foundPhrases('a.generated.ts', `// ${told}`)).toEqual([]);
  });

  test('listed places may contain vague phrases; unused list entries are reported', () => {
    const text = `one ${told}\ntwo ${told}`;
    expect(foundPhrases('a.md', text, [['a.md', `one ${told}`]])).toEqual([
      `2: "${told}" is vague: use an established term`,
    ]);
    expect(foundPhrases('a.md', 'fine', [['a.md', 'gone']])).toEqual([
      '1: does not contain "gone", which ALLOWED_PHRASES lists',
    ]);
    expect(foundPhrases('b.md', 'fine', [['a.md', 'gone']])).toEqual([]);
  });

  test('at most 20 places may contain vague phrases', () => {
    expect(ALLOWED_PHRASES.length).toBeLessThanOrEqual(20);
  });
});

describe('file locations', () => {
  test('the root folder may contain only listed entries', () => {
    const files = { 'README.md': '', 'tools/a.mjs': '', 'notes/a.md': '', 'notes/b.md': '' };
    expect(found('no stray root entries', files)).toEqual(['notes:1: does not belong at the root']);
  });

  test('an algorithm has a script, a test and a page of its name', () => {
    const files: Record<string, string> = {
      [`${SRC}algorithms/algorithm.ts`]: '',
      [`${SRC}algorithms/index.ts`]: '',
      [`${SRC}algorithms/leaky.ts`]: '',
    };
    expect(found('one name in all places', files)).toEqual([
      `${SRC}algorithms/leaky.ts:1: has no ${SRC}stores/redis/scripts/leaky.lua`,
      `${SRC}algorithms/leaky.ts:1: has no packages/sluice/test/algorithms/leaky.test.ts`,
      `${SRC}algorithms/leaky.ts:1: has no docs/algorithms/leaky.md`,
    ]);
    files[`${SRC}stores/redis/scripts/leaky.lua`] = '';
    files['packages/sluice/test/algorithms/leaky.test.ts'] = '';
    files['docs/algorithms/leaky.md'] = '';
    expect(found('one name in all places', files)).toEqual([]);
  });
});

describe('the tree in ARCHITECTURE.md', () => {
  const files = {
    'README.md': '',
    'docs/a.md': '',
    'docs/deep/b.md': '',
    'packages/p/package.json': '',
    'packages/p/src/a.ts': '',
    'packages/p/src/in/b.ts': '',
    'packages/p/test/a.test.ts': '',
    'packages/p/test/in/deep/b.test.ts': '',
  };
  const tree = ['docs/', '  deep/', 'packages/', '  p/', '    src/', '      in/'];
  const foundWith = (lines: readonly string[]) =>
    found('the tree is the real one', {
      ...files,
      'ARCHITECTURE.md': ['# A', '', '```tree', ...lines, '```', 'docs/none.md'].join('\n'),
    });

  test('the tree that tidy.mjs prints is accepted', () => {
    expect(realTree(Object.entries(files).map(([path, text]) => ({ path, text })))).toEqual(tree);
    expect(foundWith(tree)).toEqual([]);
  });

  test('the tree in ARCHITECTURE.md may have descriptions and additional files', () => {
    expect(foundWith(tree.map((line) => `${line}    what it is for`))).toEqual([]);
    expect(foundWith([...tree, '      a.ts', 'README.md  first'])).toEqual([]);
  });

  test('missing and stale entries of the tree are reported', () => {
    expect(foundWith(tree.map((line) => line.replace('in/', 'old/')))).toEqual([
      'ARCHITECTURE.md:3: packages/p/src/in/ is not in the tree',
      'ARCHITECTURE.md:9: packages/p/src/old/ is in the tree but does not exist',
    ]);
  });

  test.each(['   odd.ts', '              deep.ts', 'a name that is not one', ''])(
    'the malformed line "%s" of the tree is reported',
    (line) => {
      expect(foundWith([...tree, line])).toEqual([
        'ARCHITECTURE.md:10: is not an indented name in the tree',
      ]);
    },
  );

  test('a missing tree in ARCHITECTURE.md is reported', () => {
    expect(found('the tree is the real one', files)).toEqual([
      'ARCHITECTURE.md:1: has no block that starts with ```tree',
    ]);
  });
});
