import { defineConfig } from 'vitest/config';
import { LongestFirst } from './tools/test-sequencer.ts';

const source = (path: string): string => new URL(path, import.meta.url).pathname;

/** Tests run on the sources; the documents' code imports the package by name. */
export default defineConfig({
  resolve: {
    alias: [
      { find: /^sluice$/, replacement: source('packages/sluice/src/index.ts') },
      {
        find: /^sluice\/redis$/,
        replacement: source('packages/sluice/src/stores/redis/index.ts'),
      },
      {
        find: /^sluice\/(express|fastify|hono|koa|fetch|node|nest)$/,
        replacement: source('packages/sluice/src/adapters/$1.ts'),
      },
      { find: /^sluice\/engine$/, replacement: source('packages/sluice/src/engine.ts') },
      { find: /^sluice-server$/, replacement: source('packages/server/src/index.ts') },
      {
        find: /^sluice-server\/configured$/,
        replacement: source('packages/server/src/configured.ts'),
      },
      { find: /^sluice-traffic$/, replacement: source('packages/traffic/src/index.ts') },
      {
        find: /^sluice-traffic\/(format|lab)$/,
        replacement: source('packages/traffic/src/$1.ts'),
      },
      { find: /^sluice\/http$/, replacement: source('packages/sluice/src/http/index.ts') },
      { find: /^sluice\/otel$/, replacement: source('packages/sluice/src/otel/index.ts') },
      { find: /^sluice\/llm$/, replacement: source('packages/sluice/src/llm/index.ts') },
      // Stand-ins for the framework modules that recipes import.
      {
        find: /^(?:next\/server|\$app\/environment)$/,
        replacement: source('packages/sluice/test/framework-modules.ts'),
      },
      { find: /^sluice\/failure$/, replacement: source('packages/sluice/src/failure/index.ts') },
      { find: /^sluice\/testing$/, replacement: source('packages/sluice/src/testing/index.ts') },
    ],
  },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'bench/test/**/*.test.ts'],
    // On a shared machine, a real server or browser is sometimes too slow. CI retries once; a test
    // that fails twice fails.
    retry: process.env.CI ? 1 : 0,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // The files of a worker share a process and its modules. The setup checks that they leave no
    // global state behind.
    isolate: false,
    globalSetup: ['tools/test-programs.ts'],
    setupFiles: ['tools/test-setup.ts'],
    sequence: { sequencer: LongestFirst },
    // Many tests wait for real servers: six files at a time keep two cores busy.
    maxWorkers: 6,
  },
});
