/**
 * Runs before each test file. The files of a worker share one process, since importing the same
 * modules for each file took a quarter of the CPU time. Restores mocks, fake timers and stubs
 * after a file, and fails a file that leaves another change, which would affect later files.
 */
import { afterAll, expect, vi } from 'vitest';

const EVENTS = ['uncaughtException', 'unhandledRejection', 'warning'] as const;

/** What a file could change for later files of the process, by name. */
function globalState(): Map<string, unknown> {
  const functions = { setTimeout, setInterval, setImmediate, fetch };
  return new Map<string, unknown>([
    ...Object.entries(functions),
    ['Date', Date],
    ['Date.now', Date.now],
    ['Math.random', Math.random],
    ['performance.now', performance.now],
    ...Object.entries(console).map(([name, value]) => [`console.${name}`, value] as const),
    ['process.emitWarning', process.emitWarning],
    ['process.cwd()', process.cwd()],
    ['process.exitCode', process.exitCode],
    ...EVENTS.map((name) => [`listeners of ${name}`, process.listenerCount(name)] as const),
    ...Object.entries(process.env).map(([name, value]) => [`process.env.${name}`, value] as const),
  ]);
}

const before = globalState();
afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.unstubAllEnvs();
  const after = globalState();
  const names = new Set([...before.keys(), ...after.keys()]);
  const changed = [...names].filter((name) => before.get(name) !== after.get(name));
  expect(changed, 'Global state that this file changed and did not restore').toEqual([]);
});
