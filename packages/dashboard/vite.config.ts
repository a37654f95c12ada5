/** Builds static files in dist/ that the service serves under /dashboard/. */
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
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
