/** Static files in dist/, as the service hands them out: under /dashboard/, nothing inline. */
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
  build: {
    target: 'es2022',
    // Inlined pictures and modules would need holes in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      // What the lab decides with, under its own names, so that it can be held to the vectors.
      input: { index: 'index.html', 'lab-engine': 'src/lab/engine.ts' },
      preserveEntrySignatures: 'exports-only',
    },
  },
});
