/** Static files in dist/, as the service hands them out: under /dashboard/, nothing inline. */
import { defineConfig } from 'vite';

/** The engine is a file of its own, so that what runs in the browser can be held to the vectors. */
const ENGINE = /\/packages\/sluice\/dist\//;

export default defineConfig({
  base: '/dashboard/',
  build: {
    target: 'es2022',
    // Inlined pictures and modules would need holes in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: { groups: [{ name: 'engine', test: ENGINE }] },
      },
    },
  },
});
