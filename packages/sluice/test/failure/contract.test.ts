/** A guarded store is a store: it has to do everything that the contract asks of one. */
import { describe, it } from 'vitest';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { memoryStore } from '../../src/index.ts';
import { storeContract } from '../../src/testing/index.ts';
import { promisesOnly } from '../promises-only.ts';

describe('the store contract holds for a guarded', () => {
  // Patient, because a busy machine must not make it fall back.
  const options = { deadlineMs: 60_000 };

  for (const { name, run } of storeContract) {
    it(`memory store: ${name}`, () => run(() => withFailurePolicy(memoryStore(), options)));
    it(`store with promises only: ${name}`, () =>
      run(() => withFailurePolicy(promisesOnly(memoryStore()), options)));
  }
});
