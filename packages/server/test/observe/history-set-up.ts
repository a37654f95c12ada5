/** A history over a decision service and a manual clock. */
import { memoryStore } from 'sluice';
import { DecisionService } from '../../src/decision-service.ts';
import type { Observations } from '../../src/observe/histogram.ts';
import { type Counts, History, MINUTE_MS } from '../../src/observe/history.ts';
import { DecisionCounters } from '../../src/observe/policy-counters.ts';
import { policy } from '../running.ts';
import { PendingClock } from './pending-clock.ts';

export const START_MS = 1_763_200_000_000;

export function setUp(policies = [policy('few', 4, '1h'), policy('many', 100, '1h')]) {
  const clock = new PendingClock(START_MS + 400);
  const decisionService = new DecisionService(memoryStore(), policies);
  const counters = new DecisionCounters();
  decisionService.watch(counters.watch, counters.onFailure);
  const durations = new Map<string, Observations>();
  const history = new History({ counters, durations }, clock);
  let keys = 0;
  /** Decides `count` calls, each with another key. */
  const call = (name: string, count = 1, cost = 1) => {
    for (let at = 0; at < count; at++) {
      decisionService.decide(decisionService.limits([{ policy: name, key: `k${keys++}`, cost }]));
    }
  };
  /** Returns the counts of the last complete seconds. */
  const last = (seconds: number): Counts => {
    history.record();
    return history.total({ startMs: history.lastMs - (seconds - 1) * 1000, seconds });
  };
  /** Returns the counts of the last complete minutes. */
  const lastMinutes = (minutes: number, step = 1): Counts => {
    history.record();
    const startMs = history.lastMinuteMs - (minutes - 1) * MINUTE_MS;
    return history.total({ startMs, seconds: minutes * 60, stepMs: step * MINUTE_MS });
  };
  return { clock, decisionService, counters, durations, history, call, last, lastMinutes };
}
