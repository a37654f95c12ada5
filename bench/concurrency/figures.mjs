/** Figures about jobs under a concurrency limit: hand-over times, fairness, commands. Pure. */

/**
 * Returns the time from the end of each job to the start of the job that takes its slot. Only jobs
 * that ended at `fromMs` or later count. With n slots, end number i is followed by start i + n.
 */
export function handOvers(jobs, slots, fromMs) {
  const ascending = (one, other) => one - other;
  const starts = jobs.map(({ startMs }) => startMs).sort(ascending);
  const ends = jobs.map(({ endMs }) => endMs).sort(ascending);
  return starts
    .slice(slots)
    .map((startMs, at) => ({ endMs: ends[at], takenMs: startMs - ends[at] }))
    .filter(({ endMs }) => endMs >= fromMs)
    .map(({ takenMs }) => takenMs);
}

/** Returns the most jobs that ran at the same time. */
export function mostAtOnce(jobs) {
  const events = jobs.flatMap(({ startMs, endMs }) => [
    { atMs: startMs, change: 1 },
    { atMs: endMs, change: -1 },
  ]);
  events.sort((one, other) => one.atMs - other.atMs || one.change - other.change);
  let running = 0;
  return Math.max(...events.map(({ change }) => (running += change)));
}

/** Returns Jain's fairness index: 1 if all shares are equal, 1 / n if one flow has everything. */
export function jain(shares) {
  const sum = shares.reduce((total, each) => total + each, 0);
  const squares = shares.reduce((total, each) => total + each * each, 0);
  return (sum * sum) / (shares.length * squares);
}

/** The commands that clients of the benchmark send; all others run inside scripts. */
const SENT = new Set(['eval', 'evalsha', 'set']);
/** The commands of the benchmark itself, and of a new connection. */
const OWN = new Set(['info', 'config|resetstat', 'client|setinfo', 'hello', 'subscribe']);

/** Counts the commands in a reply to INFO COMMANDSTATS: those sent, and those inside scripts. */
export function countCommands(info) {
  const counts = { sent: 0, inScripts: 0 };
  for (const [, name, calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (OWN.has(name)) continue;
    counts[SENT.has(name) ? 'sent' : 'inScripts'] += Number(calls);
  }
  return counts;
}
