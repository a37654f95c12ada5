import { defineConfig } from 'vitest/config';

/** Property tests run few cases here; `npm run properties` runs them in earnest. */
export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'bench/test/**/*.test.ts'],
    testTimeout: 60_000,
  },
});
