/**
 * Draws the pictures of docs/algorithms, what each algorithm does to one client that takes all it
 * can get, from the engine itself. Needs the build.
 *
 *     node tools/algorithm-pictures.mjs          writes docs/algorithms/NAME.svg
 *     node tools/algorithm-pictures.mjs --check  says whether they are what it would write
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
  console.error(`Expected the pictures of docs/algorithms to be drawn anew: ${stale.join(', ')}`);
  process.exitCode = 1;
}
