import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { BEAT_MS, HUNG_MS, Watchdog, type Watched } from '../../src/cluster/heartbeat.ts';
import { ProcessState } from '../../src/cluster/process-state.ts';

class Quiet implements Watched {
  heardMs = performance.now();
  readonly silences: number[] = [];
  excuses = 0;

  excuse(): void {
    this.excuses++;
    this.heardMs = performance.now();
  }

  silent(silentMs: number): void {
    this.silences.push(silentMs);
  }
}

describe('the watchdog', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('reports a process that is silent, and not one that is heard', () => {
    const [quiet, lively] = [new Quiet(), new Quiet()];
    const watchdog = new Watchdog(() => [quiet, lively]);
    watchdog.start();
    for (let beat = 0; beat < 10; beat++) {
      vi.advanceTimersByTime(BEAT_MS);
      lively.heardMs = performance.now();
    }
    expect(Math.max(...quiet.silences)).toBeGreaterThanOrEqual(HUNG_MS);
    expect(lively.silences).toEqual([]);
    watchdog.stop();
    vi.advanceTimersByTime(10 * BEAT_MS);
    expect(Math.max(...quiet.silences)).toBeLessThanOrEqual(11 * BEAT_MS);
  });

  test('excuses everybody after it was held up itself', () => {
    const quiet = new Quiet();
    const watchdog = new Watchdog(() => [quiet]);
    watchdog.start();
    // The clock goes on while no timer fires, as in a process that is stopped.
    const nowMs = performance.now();
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs + 60_000);
    vi.advanceTimersToNextTimer();
    clock.mockRestore();
    expect(quiet.excuses).toBe(1);
    expect(quiet.silences).toEqual([]);
    watchdog.stop();
  });
});

describe('a silent process', () => {
  test.each([
    ['that is stopped', 'SIGSTOP'],
    ['that waits for something', undefined],
  ] as const)('%s is not starved', async (_, signal) => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' });
    try {
      await once(child, 'spawn');
      if (signal !== undefined) child.kill(signal);
      const silence = new ProcessState(child.pid!);
      await vi.waitUntil(() => !silence.isStarved(), { timeout: 20_000 });
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(silence.isStarved()).toBe(false);
      expect(silence.isStopped()).toBe(signal === 'SIGSTOP');
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('of which the system says nothing is neither starved nor stopped', () => {
    const silence = new ProcessState(2 ** 30);
    expect([silence.isStarved(), silence.isStopped()]).toEqual([false, false]);
  });
});
