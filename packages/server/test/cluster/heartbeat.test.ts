import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BEAT_MS, HUNG_MS, Watchdog, type WatchedProcess } from '../../src/cluster/heartbeat.ts';
import { ProcessState } from '../../src/cluster/process-state.ts';

class TestProcess implements WatchedProcess {
  lastBeatMs = performance.now();
  readonly silences: number[] = [];
  marks = 0;

  markAlive(): void {
    this.marks++;
    this.lastBeatMs = performance.now();
  }

  onSilence(silentMs: number): void {
    this.silences.push(silentMs);
  }
}

describe('Watchdog', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('the watchdog reports only processes without heartbeats', () => {
    const [quiet, lively] = [new TestProcess(), new TestProcess()];
    const watchdog = new Watchdog(() => [quiet, lively]);
    watchdog.start();
    for (let beat = 0; beat * BEAT_MS <= HUNG_MS; beat++) {
      vi.advanceTimersByTime(BEAT_MS);
      lively.lastBeatMs = performance.now();
    }
    expect(Math.max(...quiet.silences)).toBeGreaterThanOrEqual(HUNG_MS);
    expect(lively.silences).toEqual([]);
    watchdog.stop();
    vi.advanceTimersByTime(10 * BEAT_MS);
    expect(Math.max(...quiet.silences)).toBeLessThanOrEqual(HUNG_MS + BEAT_MS);
  });

  test('the watchdog resets the silence of all processes after its own was stopped', () => {
    const quiet = new TestProcess();
    const watchdog = new Watchdog(() => [quiet]);
    watchdog.start();
    // The clock advances while no timer fires, as in a stopped process.
    const nowMs = performance.now();
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs + 60_000);
    vi.advanceTimersToNextTimer();
    clock.mockRestore();
    expect(quiet.marks).toBe(1);
    expect(quiet.silences).toEqual([]);
    watchdog.stop();
  });
});

describe('ProcessState', () => {
  test.each([
    ['a stopped process', 'SIGSTOP'],
    ['a sleeping process', undefined],
  ] as const)('ProcessState reports %s as not starved', async (_, signal) => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' });
    try {
      await once(child, 'spawn');
      if (signal !== undefined) child.kill(signal);
      const state = new ProcessState(child.pid!);
      await vi.waitUntil(() => !state.isStarved(), { timeout: 20_000 });
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(state.isStarved()).toBe(false);
      expect(state.isStopped()).toBe(signal === 'SIGSTOP');
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('a process without /proc entry is neither starved nor stopped', () => {
    const state = new ProcessState(2 ** 30);
    expect([state.isStarved(), state.isStopped()]).toEqual([false, false]);
  });
});
