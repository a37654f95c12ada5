/**
 * Generates two files from the schema of the configuration: the JSON Schema for editors, and the
 * tables of docs/configuration.md, each below a line `<!-- table: NAME -->`. Requires `npm run
 * build`.
 *
 *     node tools/config-schema.mjs           writes both files
 *     node tools/config-schema.mjs --check   exits with code 1 if a file is out of date
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as schema from '../packages/server/dist/config/schema.js';
import {
  fileKeyOf,
  flagOf,
  SETTING_NAMES,
  SETTINGS,
  variableOf,
} from '../packages/server/dist/settings.js';

const SCHEMA = new URL('../packages/server/schema/sluice.schema.json', import.meta.url);
const PAGE = new URL('../docs/configuration.md', import.meta.url);

const tableOf = (head, rows) => [
  ...[head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`),
];

const fieldTable = ({ shape }, names = Object.keys(shape)) =>
  tableOf(
    ['field', 'meaning'],
    names.map((name) => [`\`${name}\``, `${shape[name].description}${choicesOf(shape[name])}`]),
  );

function choicesOf(field) {
  const { innerType, entries } = field.def;
  if (innerType !== undefined) return choicesOf(innerType);
  if (entries === undefined) return '';
  return ` One of ${Object.keys(entries)
    .map((name) => `\`${name}\``)
    .join(', ')}.`;
}

const TABLES = {
  policy: fieldTable(schema.policyFields),
  block: fieldTable(schema.blockFields),
  concurrency: fieldTable(schema.concurrencyFields, ['concurrency', 'lease']),
  'request match': fieldTable(schema.requestMatch),
  'descriptor match': fieldTable(schema.descriptorMatch),
  limit: fieldTable(schema.ruleLimit),
  rate_limit: fieldTable(schema.rateLimit, [
    'window',
    'limit',
    'algorithm',
    'buckets',
    'burst',
    'on_failure',
  ]),
  settings: tableOf(
    ['field', 'flag', 'variable', 'meaning'],
    SETTING_NAMES.map((name) => [
      SETTINGS[name].notInFile ? '' : `\`${fileKeyOf(name)}\``,
      `\`${flagOf(name)}\``,
      `\`${variableOf(name)}\``,
      SETTINGS[name].help,
    ]),
  ),
};

/** Replaces the table below each `<!-- table: NAME -->` line. */
const withTables = (page) =>
  page.replace(/^<!-- table: (.+) -->\n\n?(?:\|.*\n)*/gm, (_, name) => {
    if (!(name in TABLES)) throw new Error(`Expected one of ${Object.keys(TABLES)}, got ${name}`);
    return [`<!-- table: ${name} -->`, '', ...TABLES[name], ''].join('\n');
  });

const contentOf = (file) => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
};

const outputs = [
  [SCHEMA, `${JSON.stringify(schema.jsonSchema(), null, 2)}\n`],
  [PAGE, withTables(contentOf(PAGE))],
];

for (const [file, content] of outputs) {
  if (!process.argv.includes('--check')) {
    mkdirSync(new URL('.', file), { recursive: true });
    writeFileSync(file, content);
  } else if (contentOf(file) !== content) {
    console.error(`${fileURLToPath(file)} is out of date: run node tools/config-schema.mjs`);
    process.exitCode = 1;
  }
}
