import { memoryStore } from 'sluice';
import { withFailurePolicy } from 'sluice/failure';
import { describe, expect, test } from 'vitest';
import { DecisionService } from '../../src/decision-service.ts';
import { Observations } from '../../src/observe/histogram.ts';
import { HISTORY_MINUTES, HISTORY_SECONDS, History, MINUTE_MS } from '../../src/observe/history.ts';
import { DecisionCounters } from '../../src/observe/policy-counters.ts';
import { MAX_LABELS, OF_OTHERS } from '../../src/observe/policy-labels.ts';
import { policy } from '../running.ts';
import { START_MS, setUp } from './history-set-up.ts';
import { PendingClock } from './pending-clock.ts';

describe('History', () => {
  test('the history contains the decisions of each second of the wall clock', () => {
    const { clock, history, call, last } = setUp();
    history.start();
    call('few', 2);
    clock.advance(599);
    call('many', 3);
    clock.advance(1);
    expect(history.lastMs).toBe(START_MS);
    call('many', 7);
    clock.advance(2000);
    expect(last(4).allowed).toEqual([0, 5, 7, 0]);
    const span = { startMs: START_MS, seconds: 2 };
    expect(history.policies(span, ['many', 'few', 'none'])).toMatchObject([
      { name: 'many', allowed: [3, 7] },
      { name: 'few', allowed: [2, 0] },
    ]);
  });

  test('the history counts denials, and a released limit neither as allowed nor as denied', () => {
    const { clock, decisionService, history, last } = setUp();
    const both = decisionService.limits([
      { policy: 'few', key: 'a', cost: 3 },
      { policy: 'many', key: 'a', cost: 3 },
    ]);
    for (let at = 0; at < 3; at++) decisionService.decide(both);
    clock.set(START_MS + 1000);
    expect(last(1)).toEqual({
      ...{ allowed: [2], denied: [2], shadowDenied: [0], degraded: [0], fullest: [1] },
      shadowAllowed: [0],
    });
    const span = { startMs: START_MS, seconds: 1 };
    expect(history.policies(span, ['few', 'many'])).toMatchObject([
      { name: 'few', allowed: [1], denied: [2], fullest: [1] },
      { name: 'many', allowed: [1], denied: [0], fullest: [0.03] },
    ]);
  });

  test('the history has the fullest key of each second, or null without decisions', () => {
    const { clock, decisionService, call, last } = setUp();
    const ada = decisionService.limits([{ policy: 'few', key: 'ada' }]);
    call('many', 1, 50);
    clock.set(START_MS + 1000);
    expect(last(1).fullest).toEqual([0.5]);
    for (let at = 0; at < 3; at++) decisionService.decide(ada);
    call('many', 1, 10);
    clock.set(START_MS + 2000);
    expect(last(1).fullest).toEqual([0.75]);
    clock.set(START_MS + 3000);
    expect(last(1).fullest).toEqual([null]);
    decisionService.decide(ada);
    clock.set(START_MS + 4000);
    // The limit is exhausted without a denial.
    expect(last(1)).toMatchObject({ denied: [0], fullest: [1] });
    decisionService.decide(decisionService.limits([{ policy: 'few', key: 'bob', cost: 3 }]));
    decisionService.decide(decisionService.limits([{ policy: 'few', key: 'bob', cost: 3 }]));
    clock.set(START_MS + 5000);
    // One remains, but the denied key counts as full.
    expect(last(1)).toMatchObject({ denied: [1], fullest: [1] });
  });

  test('the history has denials and fullness of shadow limits', () => {
    const { clock, decisionService, last, history } = setUp([
      policy('watched', 2, '1h', { shadow: true }),
    ]);
    const limits = decisionService.limits([{ policy: 'watched', key: 'a' }]);
    decisionService.decide(limits);
    clock.set(START_MS + 1000);
    expect(last(1)).toMatchObject({ allowed: [0], shadowAllowed: [1], shadowDenied: [0] });
    expect(last(1)).toMatchObject({ fullest: [0.5] });
    expect(history.activity({ startMs: START_MS, seconds: 1 })).toHaveLength(1);
    for (let at = 0; at < 4; at++) decisionService.decide(limits);
    clock.set(START_MS + 2000);
    expect(last(1)).toMatchObject({ denied: [0], shadowAllowed: [1], shadowDenied: [3] });
    expect(last(1)).toMatchObject({ fullest: [1] });
  });

  test('the history keeps all 600 seconds of a rarely used policy', () => {
    const { clock, history, call, last } = setUp();
    const calls = (second: number): number => (second % 7 === 0 && second % 400 < 150 ? 2 : 0);
    for (let second = 0; second < 1500; second++) {
      call('many', calls(second));
      clock.set(START_MS + (second + 1) * 1000);
      history.record();
      if (second % 50 !== 0) continue;
      const expected = Array.from({ length: HISTORY_SECONDS }, (_, at) => {
        const past = second - HISTORY_SECONDS + 1 + at;
        return past < 0 ? 0 : calls(past);
      });
      expect(last(HISTORY_SECONDS).allowed).toEqual(expected);
      expect(last(HISTORY_SECONDS).fullest.map((full) => full !== null)).toEqual(
        expected.map((count) => count > 0),
      );
    }
  });

  test('the history counts degraded checks, with a fullness only for local decisions', async () => {
    const store = withFailurePolicy(
      Object.assign(memoryStore(), {
        decide: async () => Promise.reject(new Error('unavailable')),
      }),
    );
    const decisionService = new DecisionService(store, [policy('few', 4, '1h')]);
    const counters = new DecisionCounters();
    decisionService.watch(counters.watch, counters.onFailure);
    const clock = new PendingClock(START_MS);
    const history = new History({ counters, durations: new Map() }, clock);
    const limits = decisionService.limits([{ policy: 'few', key: 'a', cost: 3 }]);
    await decisionService.decide(limits, { onFailure: 'allow' });
    await decisionService.decide(limits, { onFailure: 'deny' });
    await expect(decisionService.decide(limits, { onFailure: 'throw' })).rejects.toThrow();
    clock.set(START_MS + 1000);
    history.record();
    expect(history.total({ startMs: START_MS, seconds: 1 })).toEqual({
      ...{ allowed: [1], denied: [1], shadowDenied: [0], degraded: [3], fullest: [null] },
      shadowAllowed: [0],
    });
    await decisionService.decide(limits, { onFailure: 'local' });
    clock.set(START_MS + 2000);
    history.record();
    expect(history.total({ startMs: START_MS + 1000, seconds: 1 }).fullest).toEqual([0.75]);
  });

  test('the history counts the decisions of a late recording in its first second', () => {
    const { clock, call, last } = setUp();
    call('many', 3);
    clock.set(START_MS + 5300);
    expect(last(6).allowed).toEqual([0, 3, 0, 0, 0, 0]);
    call('many', 2);
    clock.set(START_MS + 6000);
    expect(last(7).allowed).toEqual([0, 3, 0, 0, 0, 0, 2]);
  });

  test('the history keeps ten minutes', () => {
    const { clock, history, call, last } = setUp();
    history.start();
    for (let second = 0; second < 2 * HISTORY_SECONDS; second++) {
      call('many', second % 3);
      clock.advance(1000);
    }
    const { allowed } = last(HISTORY_SECONDS);
    expect(allowed.reduce((sum, count) => sum + count)).toBe(HISTORY_SECONDS);
    const older = { startMs: history.lastMs - HISTORY_SECONDS * 1000, seconds: 1 };
    expect(history.total(older).allowed).toEqual([0]);
    // After twelve hours without a recording, no old count remains.
    clock.set(clock.now() + 12 * 3_600_000);
    expect(new Set(last(HISTORY_SECONDS).allowed)).toEqual(new Set([0]));
  });

  test('the history loses no count when the clock is set back a little', () => {
    const { clock, call, last } = setUp();
    call('many', 3);
    clock.set(START_MS + 4000);
    expect(last(4).allowed).toEqual([3, 0, 0, 0]);
    clock.set(START_MS + 2500);
    call('many', 5);
    expect(last(2).allowed).toEqual([3, 0]);
    clock.set(START_MS + 4100);
    expect(last(4).allowed).toEqual([3, 0, 0, 0]);
    clock.set(START_MS + 5000);
    expect(last(5).allowed).toEqual([3, 0, 0, 0, 5]);
  });

  test('the history restarts when the clock is set back by an hour', () => {
    const { clock, call, last, history } = setUp();
    history.start();
    call('many', 3);
    clock.advance(10_000);
    clock.set(START_MS - 3_600_000 + 400);
    call('many', 5);
    expect(last(3).allowed).toEqual([0, 0, 5]);
    call('many', 2);
    clock.advance(600);
    expect(last(4).allowed).toEqual([0, 0, 5, 2]);
    // The earlier counts are deleted and do not appear when the clock reaches their time again.
    clock.set(START_MS + 5000);
    expect(last(5).allowed).toEqual([0, 0, 0, 0, 0]);
  });

  test('the history deletes later seconds when the clock is set back within ten minutes', () => {
    const { clock, call, last, history } = setUp();
    history.start();
    for (let second = 0; second < 60; second++) {
      call('many');
      clock.advance(1000);
    }
    clock.set(START_MS + 30_000);
    call('many', 9);
    const { allowed } = last(30);
    expect(allowed).toEqual([...Array(29).fill(1), 9]);
    clock.set(START_MS + 50_000);
    expect(last(50).allowed).toEqual([...Array(29).fill(1), 9, ...Array(20).fill(0)]);
  });

  test('the history keeps 24 hours by minute', () => {
    const { clock, history, call, lastMinutes } = setUp();
    const startMinute = Math.floor(START_MS / MINUTE_MS);
    // 25 hours, with a call in the first and in the 31st second of each third minute.
    for (let minute = 0; minute < HISTORY_MINUTES + 60; minute++) {
      for (const second of [0, 30]) {
        clock.set((startMinute + 1 + minute) * MINUTE_MS + second * 1000);
        history.record();
        if (minute % 3 === 0) call('many', 1, second === 0 ? 20 : 10);
      }
    }
    clock.set((startMinute + 1 + HISTORY_MINUTES + 60) * MINUTE_MS);
    const { allowed, fullest } = lastMinutes(HISTORY_MINUTES);
    expect(allowed.slice(-6)).toEqual([2, 0, 0, 2, 0, 0]);
    expect(allowed.reduce((sum, each) => sum + each)).toBe((2 * HISTORY_MINUTES) / 3);
    expect(fullest.slice(-3)).toEqual([0.2, null, null]);
    const steps = lastMinutes(HISTORY_MINUTES, 24);
    expect(steps.allowed).toEqual(Array(60).fill(16));
    expect(steps.fullest).toEqual(Array(60).fill(0.2));
    const older = { startMs: history.lastMinuteMs - HISTORY_MINUTES * MINUTE_MS, seconds: 60 };
    expect(history.total({ ...older, stepMs: MINUTE_MS }).allowed).toEqual([0]);
  });

  test('the history by minute contains shadow decisions and counts them as activity', () => {
    const { clock, decisionService, history, lastMinutes } = setUp([
      policy('watched', 2, '1h', { shadow: true }),
    ]);
    const limits = decisionService.limits([{ policy: 'watched', key: 'a' }]);
    for (let second = 0; second < 4; second++) {
      decisionService.decide(limits);
      clock.set(START_MS + (second + 1) * 1000);
      history.record();
    }
    clock.set(START_MS + 2 * MINUTE_MS);
    const { shadowAllowed, shadowDenied } = lastMinutes(2);
    expect([shadowAllowed[0] + shadowAllowed[1], shadowDenied[0] + shadowDenied[1]]).toEqual([
      2, 2,
    ]);
    const startMs = history.lastMinuteMs - MINUTE_MS;
    expect(history.activity({ startMs, seconds: 120, stepMs: MINUTE_MS })).toEqual([
      ['watched', 4],
    ]);
  });

  test('the history deletes later minutes when the clock is set back', () => {
    const { clock, call, history, lastMinutes } = setUp();
    history.start();
    const minuteMs = Math.ceil(START_MS / MINUTE_MS) * MINUTE_MS;
    for (let minute = 0; minute < 5; minute++) {
      clock.set(minuteMs + minute * MINUTE_MS + 500);
      history.record();
      call('many', 2);
    }
    clock.set(minuteMs + 2 * MINUTE_MS + 30_500);
    history.record();
    call('many', 5);
    clock.set(minuteMs + 5 * MINUTE_MS);
    // The repeated minute contains its calls of both times.
    expect(lastMinutes(5).allowed).toEqual([2, 2, 9, 0, 0]);
  });

  test('the history reports since when it records', () => {
    const { clock, history } = setUp();
    expect(history.sinceMs).toBe(START_MS);
    clock.set(START_MS + 20_000);
    history.record();
    expect(history.sinceMs).toBe(START_MS);
    clock.set(START_MS - 3_600_000);
    history.record();
    expect(history.sinceMs).toBeLessThan(START_MS - 3_600_000);
  });

  test('the history contains only policies with traffic', () => {
    const names = Array.from({ length: MAX_LABELS + 20 }, (_, at) => `p${at}`);
    const { clock, call, history } = setUp(names.map((name) => policy(name, 5, '1h')));
    call('p7');
    clock.set(START_MS + 1000);
    history.record();
    expect(history.activity({ startMs: START_MS, seconds: 1 })).toEqual([['p7', 1]]);
    for (const name of names) call(name);
    clock.set(START_MS + 2000);
    history.record();
    const activity = history.activity({ startMs: START_MS + 1000, seconds: 1 });
    expect(activity).toHaveLength(MAX_LABELS + 1);
    expect(new Map(activity).get(OF_OTHERS)).toBe(20);
  });

  test('the history has the durations of decisions per second', () => {
    const { clock, durations, history } = setUp();
    const http = new Observations();
    const grpc = new Observations();
    durations.set('http', http).set('grpc', grpc);
    http.add(0.0002);
    grpc.add(0.0002);
    clock.set(START_MS + 1000);
    history.record();
    http.add(3);
    clock.set(START_MS + 2000);
    history.record();
    const [first, second, third] = history.durations({ startMs: START_MS, seconds: 3 });
    expect(first.slice(0, 3)).toEqual([0, 2, 0]);
    expect([second[1], second.at(-1)]).toEqual([0, 1]);
    expect(new Set(third)).toEqual(new Set([0]));
  });

  test('stop cancels the timer of the history', () => {
    const { clock, history } = setUp();
    expect(clock.pending).toBe(0);
    history.start();
    clock.advance(5000);
    expect(clock.pending).toBe(1);
    history.stop();
    history.stop();
    expect(clock.pending).toBe(0);
  });
});
