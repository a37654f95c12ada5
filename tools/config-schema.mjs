/**
 * Makes the JSON Schema of Sluice's configuration, for editors. Needs the build.
 *
 *     node tools/config-schema.mjs           writes packages/server/schema/sluice.schema.json
 *     node tools/config-schema.mjs --check   exit code 1 if it is not what the sources make
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { jsonSchema } from '../packages/server/dist/config/schema.js';

const TARGET = new URL('../packages/server/schema/sluice.schema.json', import.meta.url);

const generated = `${JSON.stringify(jsonSchema(), null, 2)}\n`;

function current() {
  try {
    return readFileSync(TARGET, 'utf8');
  } catch {
    return '';
  }
}

if (!process.argv.includes('--check')) {
  mkdirSync(new URL('.', TARGET), { recursive: true });
  writeFileSync(TARGET, generated);
} else if (current() !== generated) {
  console.error('sluice.schema.json is out of date: run node tools/config-schema.mjs');
  process.exitCode = 1;
}
