/** A store with a failure policy fulfils the store contract. */
import { describe, it } from 'vitest';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { memoryStore } from '../../src/index.ts';
import { storeContract } from '../../src/testing/index.ts';
import { promisesOnly } from '../promises-only.ts';

describe('the store contract of a guarded store', () => {
  // A long deadline, so that a busy machine causes no fallback.
  const options = { deadlineMs: 60_000 };

  for (const { name, run } of storeContract) {
    it(`guarded memory store: ${name}`, () => run(() => withFailurePolicy(memoryStore(), options)));
    it(`guarded asynchronous store: ${name}`, () =>
      run(() => withFailurePolicy(promisesOnly(memoryStore()), options)));
  }
});
