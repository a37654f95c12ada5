/**
 * Chaos test of a service with several workers under load. During the test, workers and the store
 * process are stopped and killed, a large configuration is reloaded every second, the log output is
 * not read for 3 s, and a TLS client sends requests without reading responses. The measurement
 * starts after a warm-up of 5 s.
 *
 *     npm run chaos
 *     npm run chaos -- --seconds 15 --rate 200 --rules 500 --json
 *     node tools/chaos/main.mjs --program FILE    (default: packages/cli/bin/sluice.mjs)
 *
 * A request is lost if its connection is closed before the response: its worker was stopped or
 * killed. A request is held if its new connection waited for a stopped worker, until that worker
 * was killed. All other requests went to healthy workers. The percentages refer only to these:
 *
 *     inTimePercent        requests with a response within 250 ms after they were sent, of all
 *                          requests except unmeasured ones
 *     unmeasuredPercent    requests that took longer only because the load generator was blocked
 *     ofDuePercent         requests with a response within 250 ms after they were due; includes all
 *                          delays of the load generator
 *     generatorBlockedMs   the longest period in which the load generator was blocked
 *
 * Exits with 1 if a figure is outside its bound; `--lenient` skips the bounds that depend on the
 * speed of the machine, and the warm-up.
 */
import { connect } from 'node:tls';
import { parseArgs } from 'node:util';
import { Load } from './load.mjs';
import { PROGRAM, Service } from './service.mjs';

const OPTIONS = {
  seconds: { type: 'string', default: '60' },
  rate: { type: 'string', default: '2000' },
  rules: { type: 'string', default: '5000' },
  workers: { type: 'string', default: '3' },
  program: { type: 'string', default: PROGRAM },
  json: { type: 'boolean', default: false },
  lenient: { type: 'boolean', default: false },
};

/** The limit of each key. */
const LIMIT = 100;
const KEYS = 20;
const IN_TIME_MS = 250;
/** If more requests are unmeasured, the load generator was blocked too often for valid figures. */
const MAX_UNMEASURED_PERCENT = 1;
const RELOAD_MS = 1000;
const PAUSE_MS = 1500;
const WARM_UP_MS = 5000;
const PATIENCE_MS = 30_000;
/** Minimum number of events, even if they take longer than `--seconds` on a slow machine. */
const MIN_EVENTS = 3;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Keys of the requests. While the store process is replaced, the old and the new process may each
 * admit a key up to its limit. Requests then use separate keys, named `between`.
 */
class Keys {
  #phase = 0;
  #count = 0;
  isBetween = false;

  next() {
    const kind = this.isBetween ? 'between' : 'one';
    return `${kind} ${this.#phase} ${this.#count++ % KEYS}`;
  }

  change(isBetween) {
    this.isBetween = isBetween;
    this.#phase++;
  }
}

/** The events, run in turn. Each function resolves when the service has recovered. */
const EVENTS = {
  'worker stopped': (chaos) => chaos.signalWorker('SIGSTOP', 'worker not responding, killed'),
  'worker killed': (chaos) => chaos.signalWorker('SIGKILL', 'worker exited'),
  'store process killed': (chaos) => chaos.signalStore('SIGKILL', 'store process exited'),
  'output blocked': (chaos) => chaos.blockOutput(),
  'store process stopped': (chaos) =>
    chaos.signalStore('SIGSTOP', 'store process not responding, killed'),
};

class Chaos {
  #service;
  #keys;
  #load;
  #nextWorker = 0;
  startMs = 0;
  /** Events with their start, their end, and the counts of their log lines. */
  events = [];
  /** Periods from the SIGSTOP of a worker to the log line that reports its kill. */
  stops = [];

  constructor(service, keys, load) {
    this.#service = service;
    this.#keys = keys;
    this.#load = load;
  }

  async run(durationMs) {
    this.startMs = performance.now();
    const untilMs = this.startMs + durationMs;
    const names = Object.keys(EVENTS);
    for (let count = 0; count < MIN_EVENTS || performance.now() < untilMs; count++) {
      const name = names[count % names.length];
      const event = { name, fromMs: performance.now(), untilMs: 0, lines: [] };
      this.events.push(event);
      event.lines = await EVENTS[name](this);
      event.untilMs = performance.now();
      await sleep(PAUSE_MS);
    }
  }

  /**
   * Sends the signal to another worker each time, because a worker that was started recently is
   * replaced only after a delay.
   */
  async signalWorker(signal, message) {
    const { workers } = this.#service.pids;
    const worker = workers[this.#nextWorker++ % workers.length];
    const fromMs = performance.now();
    const lines = await this.#signal(worker, signal, message, 'worker replaced');
    const killed = this.#service.lines.find(({ msg, pid }) => msg === message && pid === worker);
    if (signal === 'SIGSTOP') this.stops.push({ fromMs, untilMs: killed?.readMs ?? fromMs });
    return lines;
  }

  /**
   * Returns true if a request waited for a stopped worker: its connection was new, and the response
   * came only after the worker was killed and another worker took over the connection.
   */
  isHeld({ isOnNew, sentMs, endMs }) {
    const isIn = ({ fromMs, untilMs }) =>
      sentMs >= fromMs && sentMs <= untilMs && endMs > untilMs - IN_TIME_MS;
    return isOnNew && this.stops.some(isIn);
  }

  async signalStore(signal, message) {
    this.#keys.change(true);
    // Wait for the requests in flight: the new store process, which has no counters, may decide
    // them.
    await this.#load.waitForInFlight(PATIENCE_MS);
    const { store } = this.#service.pids;
    const lines = await this.#signal(store, signal, message, 'store process replaced');
    await sleep(PAUSE_MS);
    this.#keys.change(false);
    return lines;
  }

  async #signal(pid, signal, message, replaced) {
    const from = this.#service.lines.length;
    process.kill(pid, signal);
    await this.#service.line(({ msg }) => msg === replaced, from, PATIENCE_MS);
    return [
      this.#service.lines.filter((line) => line.msg === message && line.pid === pid).length,
      this.#service.lines.slice(from).filter(({ msg }) => msg === replaced).length,
    ];
  }

  async blockOutput() {
    this.#service.blockOutput();
    await sleep(2 * PAUSE_MS);
    this.#service.readOutput();
    return [];
  }
}

/** Sends requests on one connection and reads no response. */
function stall(port) {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
  const body = JSON.stringify({ policy: 'other', key: 'stalled' });
  const head = `POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}`;
  socket.on('secureConnect', () => {
    const send = () => {
      while (socket.write(`${head}\r\n\r\n${body}`.repeat(100)));
    };
    socket.pause().on('drain', send);
    send();
  });
  socket.on('error', () => {});
  return socket;
}

/** Returns the number of requests admitted above the limit of their key, or while degraded. */
function wrongAdmits(results) {
  const admitted = new Map();
  let wrong = 0;
  for (const { key, allowed, isDegraded } of results) {
    if (!allowed) continue;
    if (isDegraded) wrong++;
    admitted.set(key, (admitted.get(key) ?? 0) + 1);
  }
  for (const [key, count] of admitted) {
    wrong += Math.max(0, count - LIMIT * (key.startsWith('between') ? 2 : 1));
  }
  return wrong;
}

const isLate = ({ tookMs, blockedMs }) => tookMs - blockedMs > IN_TIME_MS;

/**
 * Returns for each event the time until the last request that was late, lost or degraded. A request
 * in flight at the start of an event counts for that event.
 */
function recoveries(events, results) {
  const failed = results.filter((result) => result.isLost || result.isDegraded || isLate(result));
  return events.map(({ name, fromMs }, at) => {
    const nextMs = events[at + 1]?.fromMs ?? Number.POSITIVE_INFINITY;
    const own = failed.filter(({ endMs }) => endMs >= fromMs && endMs < nextMs);
    const count = (isOne) => own.filter(isOne).length;
    return {
      name,
      recoveryMs: Math.round(Math.max(0, ...own.map(({ dueMs }) => dueMs - fromMs))),
      late: count((result) => !result.isLost && isLate(result)),
      lateOnNew: count((result) => !result.isLost && result.isOnNew && isLate(result)),
      lost: count(({ isLost }) => isLost),
      degraded: count(({ isDegraded }) => isDegraded),
    };
  });
}

const percentOf = (part, all) => Number(((100 * part.length) / all.length).toFixed(3));

function report(chaos, load, reloads, code) {
  const results = load.resultsSince(chaos.startMs);
  const answered = results.filter(({ isLost }) => !isLost);
  const healthy = answered.filter((result) => !chaos.isHeld(result));
  const inTime = healthy.filter(({ tookMs }) => tookMs <= IN_TIME_MS);
  const measured = healthy.filter((result) => result.tookMs <= IN_TIME_MS || isLate(result));
  const inTimeOfDue = healthy.filter(({ endMs, dueMs }) => endMs - dueMs <= IN_TIME_MS);
  const { events } = chaos;
  const recovered = recoveries(events, results);
  return {
    requests: results.length,
    lost: results.length - answered.length,
    held: answered.length - healthy.length,
    unsent: load.unsent,
    generatorBlockedMs: load.longestBlockedMs(chaos.startMs),
    inTimePercent: percentOf(inTime, measured),
    unmeasuredPercent: Number((100 - percentOf(measured, healthy)).toFixed(3)),
    ofDuePercent: percentOf(inTimeOfDue, healthy),
    degraded: answered.filter(({ isDegraded }) => isDegraded).length,
    wrongAdmits: wrongAdmits(load.resultsSince(0)),
    longestRecoveryMs: Math.max(...recovered.map(({ recoveryMs }) => recoveryMs)),
    notLoggedOnce: events.filter(({ lines }) => lines.some((count) => count !== 1)).length,
    reloads,
    exitCode: code,
    events: recovered,
  };
}

/** Returns a line for each figure outside its bound. */
function failures(figures, isLenient) {
  const { inTimePercent, unmeasuredPercent, notLoggedOnce, longestRecoveryMs } = figures;
  const wrong = figures.wrongAdmits;
  return [
    wrong > 0 && `${wrong} wrong admits, expected 0`,
    notLoggedOnce > 0 && `${notLoggedOnce} events not logged once, expected 0`,
    figures.reloads === 0 && 'no reload, expected some',
    figures.exitCode !== 0 && `exit code ${figures.exitCode}, expected 0`,
    !isLenient && inTimePercent < 99.9 && `${inTimePercent} % in time, expected 99.9`,
    !isLenient &&
      unmeasuredPercent > MAX_UNMEASURED_PERCENT &&
      `${unmeasuredPercent} % not measured, because the load generator was blocked`,
    !isLenient && longestRecoveryMs > 3000 && `recovery in ${longestRecoveryMs} ms, expected 3000`,
  ].filter(Boolean);
}

/** Runs the service, the load and the events. Resolves to the figures. */
async function run(service, values) {
  const [seconds, rate, workers] = ['seconds', 'rate', 'workers'].map((name) =>
    Number(values[name]),
  );
  await service.start(workers);
  const keys = new Keys();
  const load = new Load(service.port, rate, () => ({ policy: 'hot', key: keys.next() }));
  const stalled = stall(service.port);
  load.start();
  let round = 0;
  const reloading = setInterval(() => service.writeConfig(++round), RELOAD_MS);
  if (!values.lenient) await sleep(WARM_UP_MS);
  const chaos = new Chaos(service, keys, load);
  await chaos.run(1000 * seconds);
  clearInterval(reloading);
  await load.stop(PATIENCE_MS);
  stalled.destroy();
  const reloads = service.lines.filter(({ msg }) => /configuration|reloaded/.test(msg)).length;
  return report(chaos, load, reloads, await service.stop());
}

async function main() {
  const { values } = parseArgs({ options: OPTIONS });
  const service = new Service({
    program: values.program,
    rules: Number(values.rules),
    limit: LIMIT,
  });
  process.once('SIGTERM', () => {
    service.kill();
    process.exit(143);
  });
  let figures;
  try {
    figures = await run(service, values);
  } finally {
    // After an error, a running service would keep the output of this program open.
    service.kill();
  }
  console.log(values.json ? JSON.stringify(figures) : figures);
  const found = failures(figures, values.lenient);
  for (const each of found) console.error(each);
  process.exitCode = found.length > 0 ? 1 : 0;
}

await main();
