/**
 * Draws the pictures in docs/algorithms. Each shows a client that sends as many requests as the
 * algorithm admits. Requires `npm run build`.
 *
 *     node tools/algorithm-pictures.mjs          writes docs/algorithms/NAME.svg
 *     node tools/algorithm-pictures.mjs --check  exits with 1 if a picture is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { algorithmPicture, COMPARED } from 'sluice-traffic';

const isCheck = process.argv.includes('--check');
const stale = [];
for (const algorithm of COMPARED) {
  const path = new URL(`../docs/algorithms/${algorithm}.svg`, import.meta.url);
  const picture = algorithmPicture(algorithm);
  if (!isCheck) writeFileSync(path, picture);
  else if (readFileSync(path, 'utf8') !== picture) stale.push(algorithm);
}
if (stale.length > 0) {
  console.error(`Out of date, run node tools/algorithm-pictures.mjs: ${stale.join(', ')}`);
  process.exitCode = 1;
}
