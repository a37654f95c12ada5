/**
 * Runs package scripts at the same time and prints the output of each script as one block. Exits
 * with 1 if a script fails.
 *
 *     node tools/parallel.mjs lint tidy test:types
 */
import { execFile } from 'node:child_process';

const MAX_OUTPUT_BYTES = 64 * 2 ** 20;

/** Runs a script. Resolves to true if it succeeded. */
const run = (name) =>
  new Promise((resolve) => {
    const options = { maxBuffer: MAX_OUTPUT_BYTES };
    execFile('npm', ['run', name], options, (error, stdout, stderr) => {
      console.log(`${stdout}${stderr}${name}: ${error === null ? 'passed' : 'failed'}\n`);
      resolve(error === null);
    });
  });

const passed = await Promise.all(process.argv.slice(2).map(run));
process.exitCode = passed.every(Boolean) ? 0 : 1;
