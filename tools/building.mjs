/**
 * Builds the project and shows the elapsed time, for `npm run demo` and `npm start`. The first
 * build takes about a minute.
 */
import { spawn } from 'node:child_process';

const EVERY_MS = 1000;
const { stderr } = process;
const isTerminal = stderr.isTTY === true;
const startedMs = performance.now();

const show = () => {
  const seconds = Math.round((performance.now() - startedMs) / 1000);
  stderr.write(`\rBuilding Sluice: ${seconds} s `);
};

stderr.write(isTerminal ? 'Building Sluice' : 'Building Sluice ...\n');
const timer = isTerminal ? setInterval(show, EVERY_MS) : undefined;
const build = spawn('npm', ['run', '--silent', 'build'], { stdio: ['ignore', 'pipe', 'pipe'] });
let output = '';
for (const stream of [build.stdout, build.stderr]) {
  stream.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
}
build.on('close', (code, signal) => {
  clearInterval(timer);
  if (isTerminal) stderr.write(`\r${' '.repeat(40)}\r`);
  if (code !== 0) stderr.write(`${output}error: The build failed (${signal ?? code})\n`);
  process.exitCode = code ?? 1;
});
