/** The embedded store: counters in the memory of the service. */
import { memoryStore } from 'sluice';
import type { StoreKind } from './store-kind.ts';

export const memoryKind: StoreKind = {
  name: 'memory',
  title: 'memory',
  schemes: ['memory'],
  isEmbedded: true,
  validate: () => {},
  redact: (url) => url,
  open: async ({ maxKeys }) => ({
    store: memoryStore({ maxKeys }),
    close: async () => {},
  }),
};
