/**
 * Runs `sluice serve` for the chaos test. Reads its log, finds its processes and changes its
 * configuration.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PROGRAM = fileURLToPath(new URL('../../packages/cli/bin/sluice.mjs', import.meta.url));
const START_MS = 60_000;

export class Service {
  /** Lines of the log, each with the time at which it was read. */
  lines = [];
  #folder = mkdtempSync(join(tmpdir(), 'sluice-chaos-'));
  #process;
  #program;
  #rules;
  #limit;
  port = 0;

  constructor({ program, rules, limit }) {
    this.#program = program;
    this.#rules = rules;
    this.#limit = limit;
  }

  async start(workers) {
    const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(this.#folder, name));
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    const rest = ['-days', '2', '-subj', '/CN=localhost', '-keyout', key, '-out', cert];
    execFileSync('openssl', ['req', '-x509', ...curve, ...rest], { stdio: 'ignore' });
    this.writeConfig();
    const flags = ['--config', join(this.#folder, 'sluice.yaml'), '--listen', '127.0.0.1:0'];
    const more = ['--workers', String(workers), '--tls-cert', cert, '--tls-key', key];
    this.#process = spawn(process.execPath, [this.#program, 'serve', ...flags, ...more], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#read(this.#process.stdout);
    const listening = await this.line(({ url }) => url !== undefined, 0, START_MS);
    this.port = Number(new URL(listening.url).port);
  }

  #read(output) {
    let rest = '';
    output.setEncoding('utf8').on('data', (piece) => {
      const texts = (rest + piece).split('\n');
      rest = texts.pop();
      for (const text of texts) this.lines.push({ ...JSON.parse(text), readMs: performance.now() });
    });
  }

  /** Stops reading the log until `readOutput`. */
  blockOutput() {
    this.#process.stdout.pause();
  }

  readOutput() {
    this.#process.stdout.resume();
  }

  /** Replaces the configuration file atomically. Each `round` has a different limit. */
  writeConfig(round = 0) {
    const numbers = Array.from({ length: this.#rules }, (_, at) => at);
    const text = [
      'policies:',
      `  hot: { limit: ${this.#limit}, window: 1h, onFailure: deny }`,
      `  other: { limit: ${1000 + round}, window: 1m }`,
      'rules:',
      ...numbers.map(
        (at) => `  - { match: { path: /a${at} }, limits: [{ policy: other, key: address }] }`,
      ),
    ].join('\n');
    const file = join(this.#folder, 'sluice.yaml');
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  }

  /**
   * Process ids of the workers and of the active store process. The spare store process was started
   * later, so it comes after the active one in the list.
   */
  get pids() {
    const { pid } = this.#process;
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    const all = text.trim().split(' ').map(Number);
    const isStore = (each) => readFileSync(`/proc/${each}/cmdline`, 'utf8').includes('store-main');
    return { workers: all.filter((each) => !isStore(each)), store: all.find(isStore) };
  }

  /**
   * Resolves to the first log line from index `from` for which `fits` returns true. Rejects if
   * there is none within `patienceMs`.
   */
  async line(fits, from, patienceMs) {
    const untilMs = performance.now() + patienceMs;
    for (;;) {
      const found = this.lines.slice(from).find(fits);
      if (found !== undefined) return found;
      if (performance.now() > untilMs) throw new Error(`No such log line within ${patienceMs} ms`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Kills the supervisor if it is running. The workers and the store process then exit too. */
  kill() {
    this.#process?.kill('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async stop() {
    this.readOutput();
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGTERM');
    const [code] = await ended;
    rmSync(this.#folder, { recursive: true, force: true });
    return code;
  }
}
