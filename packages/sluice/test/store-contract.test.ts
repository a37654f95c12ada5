import { describe, expect, it } from 'vitest';
import { createLimiter, memoryStore, type Store } from '../src/index.ts';
import { storeContract } from '../src/testing/index.ts';
import { promisesOnly } from './promises-only.ts';

describe('the store contract', () => {
  for (const { name, run } of storeContract) {
    it(`memory: ${name}`, () => run(() => memoryStore()));
    it(`memory, asynchronous methods: ${name}`, () => run(() => promisesOnly(memoryStore())));
  }

  it('the store contract detects a store that charges denied checks', async () => {
    const charging = (): Store => {
      const store = memoryStore();
      const decide: Store['decide'] = async (checks, nowMs) => {
        const results = await store.decide(checks, nowMs);
        for (const { limits, peek } of checks) {
          const [{ policy, params, key }] = limits;
          if (!peek) store.open(policy).takeSync(params, key, 1, nowMs ?? 0);
        }
        return results;
      };
      return { ...promisesOnly(store), decide };
    };
    const heavy = storeContract.find(({ name }) => name.includes('charges nothing'));
    await expect(heavy?.run(charging)).rejects.toThrow(
      'cost 2 is allowed: expected true, got false',
    );
  });

  it('checkSync on an asynchronous store throws ERR_NOT_SYNCHRONOUS', () => {
    const store = promisesOnly(memoryStore());
    const limiter = createLimiter({ policies: { p: '1/1s' }, store }) as never as {
      checkSync(policy: string, key: string): void;
    };
    expect(() => limiter.checkSync('p', 'a')).toThrow(
      expect.objectContaining({ code: 'ERR_NOT_SYNCHRONOUS' }),
    );
  });
});
