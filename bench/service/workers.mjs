/**
 * Computes the capacity of `--workers 2` relative to `--workers 1` on two cores, for `POST
 * /v1/check` with the embedded store.
 *
 *     node bench/service/workers.mjs
 *
 * Measures the CPU time per request of each process of the service. The load generator may use the
 * same cores, because its CPU time is not measured. With a CPU time of `cpu` seconds per request,
 * one process serves at most 1 / cpu requests per second. Two workers and the store process
 * together have two cores:
 *
 *     capacity = min(2 / (worker + store + supervisor), 2 / worker, 1 / store)
 *
 * where each name stands for the CPU time of all processes of that kind per request. The required
 * ratio is 1.5. Rounds with one and two workers alternate; the ratio is computed from the medians.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { median } from '../harness.mjs';

const PROGRAM = fileURLToPath(new URL('../../packages/cli/bin/sluice.mjs', import.meta.url));
const ROUNDS = 5;
const REQUESTS = 20_000;
const CONNECTIONS = 64;
const TICK_MS = 10;

/** Returns the CPU time of a process in ms. */
function cpuOf(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

class Service {
  async start(workers) {
    const flags = ['--listen', '127.0.0.1:0', '--workers', String(workers), '--deadline', '10s'];
    this.process = spawn(process.execPath, [PROGRAM, 'serve', '--log-level', 'info', ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    for await (const piece of this.process.stdout) {
      text += piece;
      const url = /"url":"([^"]+)"/.exec(text)?.[1];
      if (url === undefined) continue;
      this.port = Number(new URL(url).port);
      break;
    }
  }

  /** Returns the CPU time in ms by kind of process. */
  cpu() {
    const { pid } = this.process;
    const times = { supervisor: cpuOf(pid), worker: 0, store: 0 };
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    for (const child of children === '' ? [] : children.split(' ')) {
      const isStore = readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('store-main');
      times[isStore ? 'store' : 'worker'] += cpuOf(child);
    }
    return times;
  }

  async stop() {
    const ended = once(this.process, 'exit');
    this.process.kill('SIGTERM');
    await ended;
  }
}

function requestOf(number) {
  const body = JSON.stringify({ policy: 'perMinute', key: `user:${number % 1000}` });
  return `POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** Sends requests on keep-alive connections, one in flight on each. */
async function load(port, requests) {
  let sent = 0;
  const run = async () => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    const send = () => {
      if (sent < requests) socket.write(requestOf(sent++));
      else socket.end();
    };
    socket.on('connect', send).on('data', send);
    await once(socket, 'close');
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, run));
}

/** Resolves to the CPU time in ms per request, by kind of process. */
async function measure(workers) {
  const service = new Service();
  await service.start(workers);
  await load(service.port, REQUESTS);
  const before = service.cpu();
  await load(service.port, REQUESTS);
  const after = service.cpu();
  await service.stop();
  return Object.fromEntries(
    Object.keys(after).map((kind) => [kind, (after[kind] - before[kind]) / REQUESTS]),
  );
}

const rounds = { 1: [], 2: [] };
for (let round = 0; round < ROUNDS; round++) {
  for (const workers of [1, 2]) rounds[workers].push(await measure(workers));
}
const medianOf = (workers, kind) => median(rounds[workers].map((each) => each[kind]));
// With `--workers 1`, there is only one process. `cpu` counts it as the supervisor.
const single = 1 / medianOf(1, 'supervisor');
const [worker, store, supervisor] = ['worker', 'store', 'supervisor'].map((kind) =>
  medianOf(2, kind),
);
const capacity = Math.min(2 / (worker + store + supervisor), 2 / worker, 1 / store);
const round = (value) => Math.round(value * 1000) / 1000;
console.log({
  'CPU ms per request, 1 worker': round(1 / single),
  'CPU ms per request, 2 workers': {
    worker: round(worker),
    store: round(store),
    supervisor: round(supervisor),
  },
  ratio: round(capacity / single),
});
