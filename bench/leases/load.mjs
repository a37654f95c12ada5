/**
 * Load generators of one process. Both make calls like a server: several in each turn of the event
 * loop, so that replies and timers are handled between them.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { AdmissionLog, machineMs } from '../../tools/admissions.mjs';

/** Shorter intervals would measure the timers of 16 processes on a small machine. */
const TICK_MS = 4;
/** Calls that the generator makes in one turn at most, when it is late. */
const MOST_IN_TURN = 1000;
/** Calls without a result, from which the generator pauses. */
const MOST_PENDING = 1000;

/** Counts the results of calls, and logs the admissions by the turns of the event loop. */
class Results {
  decisions = 0;
  admitted = 0;
  leased = 0;
  /** Denials although the store had room for the call. */
  unexplained = 0;
  /** Calls that the store did not decide in time. */
  failed = 0;
  pending = 0;
  log = new AdmissionLog();
  #turnMs = machineMs();
  /** Admissions whose results have been seen since the last turn, by the time of their call. */
  #seen = new Map();

  /** Call at the beginning of each turn. Returns the time. */
  turn() {
    const nowMs = machineMs();
    for (const [beforeMs, units] of this.#seen) this.log.add(beforeMs, nowMs, units);
    this.#seen.clear();
    this.#turnMs = nowMs;
    return nowMs;
  }

  async count(call) {
    const beforeMs = this.#turnMs;
    this.pending++;
    const { allowed, leased, remaining, degraded } = await call();
    this.pending--;
    if (degraded) this.failed++;
    this.decisions++;
    if (allowed) {
      this.admitted++;
      if (leased) this.leased++;
      this.#seen.set(beforeMs, (this.#seen.get(beforeMs) ?? 0) + 1);
    } else if (remaining > 0) this.unexplained++;
  }

  /** Returns the figures of a run that began when the process had used `cpu`. */
  figures(cpu) {
    this.turn();
    const { user, system } = process.cpuUsage(cpu);
    const { decisions, admitted, leased, unexplained, failed } = this;
    const log = this.log.numbers();
    return { decisions, admitted, leased, unexplained, failed, cpuUs: user + system, log };
  }
}

async function waitUntil(startMs) {
  await sleep(Math.max(startMs - machineMs(), 0));
  return { results: new Results(), cpu: process.cpuUsage() };
}

/** Makes as many calls as possible. Each of `callers` makes at most one call in each turn. */
export async function atFullSpeed(call, { callers, startMs, endMs }) {
  const { results, cpu } = await waitUntil(startMs);
  let turn = nextTurn();
  let isOver = false;
  const caller = async () => {
    while (!isOver) {
      await results.count(call);
      await turn;
    }
  };
  const all = Array.from({ length: callers }, caller);
  while (!isOver) {
    await turn;
    isOver = results.turn() >= endMs;
    turn = nextTurn();
  }
  await Promise.all(all);
  return results.figures(cpu);
}

/** Makes `perSecond` calls, in portions every `TICK_MS`. */
export async function atRate(call, { perSecond, startMs, endMs }) {
  const { results, cpu } = await waitUntil(startMs);
  for (let made = 0, nowMs = startMs; nowMs < endMs; ) {
    const due = Math.floor(((nowMs - startMs) * perSecond) / 1000) - made;
    for (let count = Math.min(due, MOST_IN_TURN); count > 0; count--, made++) {
      void results.count(call);
    }
    do await (due > MOST_IN_TURN ? nextTurn() : sleep(TICK_MS));
    while (results.pending > MOST_PENDING);
    nowMs = results.turn();
  }
  while (results.pending > 0) await sleep(1);
  return results.figures(cpu);
}
