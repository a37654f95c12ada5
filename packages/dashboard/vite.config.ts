/** Builds static files in dist/ that the service serves under /dashboard/. */
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
  resolve: {
    // The unbundled modules, so that pages other than the lab load descriptions, not the engine.
    alias: {
      'sluice/engine': new URL('../sluice/dist/engine.js', import.meta.url).pathname,
    },
  },
  build: {
    target: 'es2022',
    // The Content-Security-Policy allows no inline images or modules.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // The lab's engine is an entry of its own, so that tests can run the vectors against it.
      input: { index: 'index.html', 'lab-engine': 'src/lab/engine.ts' },
      preserveEntrySignatures: 'exports-only',
    },
  },
});
