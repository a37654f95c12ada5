/**
 * Prints, as JSON, the memory of top keys and history for 1,000 policies: after each was used once
 * in both generations, after each was flooded with the longest keys, and after twelve minutes
 * without a request. Then the memory of the history per policy that is used all day, without and
 * with shadow mode. Started with --expose-gc.
 */
import { ManualClock } from 'sluice';
import { History } from '../../dist/observe/history.js';
import { DecisionCounters } from '../../dist/observe/policy-counters.js';
import { GENERATION_MS, TopKeys } from '../../dist/observe/top-keys.js';

const POLICIES = 1000;
const START_MS = 1_763_200_000_000;
const FLOOD_KEYS = 40;

const clock = new ManualClock(START_MS);
Date.now = () => clock.now();

function heldBytes() {
  for (let round = 0; round < 3; round++) globalThis.gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const names = Array.from({ length: POLICIES }, (_, at) => `policy-${at}`);
const counters = new DecisionCounters();
const topKeys = new TopKeys();
const history = new History({ counters, durations: new Map() }, clock);

function hit(policy, key, allowed) {
  const atMs = clock.now();
  const result = { policy, key, allowed, cost: 1, limit: 9, remaining: 3, atMs };
  const decision = { allowed, result: { ...result, limits: [result] }, shadow: [], peek: false };
  counters.watch(decision, [undefined]);
  topKeys.watch(decision, [undefined]);
}

function inBothGenerations(use) {
  for (let generation = 0; generation < 2; generation++) {
    clock.advance(GENERATION_MS);
    for (const name of names) use(name);
    clock.advance(1000);
    history.record();
  }
}

hit(names[0], 'warm', true);
hit(names[0], 'warm', false);
const emptyBytes = heldBytes();

inBothGenerations((name) => {
  hit(name, 'client', true);
  hit(name, 'client', false);
});
const usedOnce = heldBytes() - emptyBytes;

let sent = 0;
inBothGenerations((name) => {
  for (let at = 0; at < FLOOD_KEYS; at++) {
    const key = `\u20ac${sent++}`.padEnd(1024, 'x');
    for (const allowed of [true, false, true, false]) hit(name, key, allowed);
  }
});
const flooded = heldBytes() - emptyBytes;

for (let second = 0; second < 720; second++) {
  clock.advance(1000);
  history.record();
}
hit(names[0], 'client', true);
const quiet = heldBytes() - emptyBytes;

/** Uses policies in each minute of 25 hours, then in each second of 11 minutes. */
function allDay(prefix, use) {
  const policies = 50;
  const used = new DecisionCounters();
  const all = Array.from({ length: policies }, (_, at) => used.of(`${prefix}-${at}`));
  const day = new History({ counters: used, durations: new Map() }, clock);
  const startBytes = heldBytes();
  const steps = [...Array(1500).fill(60_000), ...Array(660).fill(1000)];
  for (const stepMs of steps) {
    for (const each of all) use(each);
    clock.advance(stepMs);
    day.record();
  }
  const bytes = (heldBytes() - startBytes) / policies;
  // Without a later use, the history would be garbage.
  return day.activity({ startMs: day.lastMs, seconds: 1 }).length === policies ? bytes : NaN;
}
const enforced = allDay('enforced', (each) => each.allowed++);
const shadowed = allDay('shadowed', (each) => each.shadow_allowed++);

console.log(JSON.stringify({ usedOnce, flooded, quiet, enforced, shadowed }));
