import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { memoryStore } from '../src/index.ts';
import { parseVectors, runVectors, type VectorFile } from '../src/testing/index.ts';

const text = readFileSync(new URL('vectors/decisions.json', import.meta.url), 'utf8');

describe('vectors', () => {
  it('the memory store decides all vectors of decisions.json as expected', async () => {
    const report = await runVectors(parseVectors(text), () => memoryStore());
    expect(report).toEqual({ passed: 160, failed: 0, differences: [] });
  });

  it.each([
    ['concurrency.json', 60],
    ['blocks.json', 60],
  ])('the memory store decides all vectors of %s as expected', async (name, passed) => {
    const file = readFileSync(new URL(`vectors/${name}`, import.meta.url), 'utf8');
    const report = await runVectors(parseVectors(file), () => memoryStore());
    expect(report).toEqual({ passed, failed: 0, differences: [] });
  });

  it.each(['released', 'renewed'])('runVectors reports a wrong `%s`', async (field) => {
    const file = readFileSync(new URL('vectors/concurrency.json', import.meta.url), 'utf8');
    const cases = JSON.parse(file.replace(`"${field}":true`, `"${field}":false`)).cases;
    const vectors = parseVectors(JSON.stringify({ version: 2, cases }));
    const { failed, differences } = await runVectors(vectors, () => memoryStore());
    expect(failed).toBe(1);
    expect(differences[0]).toMatchObject({
      expected: { [field]: false },
      got: { [field]: true },
    });
  });

  it.each(['allowed', 'remaining', 'retryAfterMs', 'resetAfterMs'] as const)(
    'runVectors reports a wrong `%s` with the case and step',
    async (field) => {
      const file = JSON.parse(text) as VectorFile;
      const wrong = structuredClone(file.cases[0]) as unknown as {
        name: string;
        steps: { expect: Record<string, unknown> }[];
      };
      wrong.steps[3].expect[field] = 'something else';
      const vectors = parseVectors(JSON.stringify({ version: 1, cases: [wrong] }));
      const { passed, failed, differences } = await runVectors(vectors, () => memoryStore());
      expect([passed, failed]).toEqual([0, 1]);
      expect(differences[0]).toMatchObject({ name: wrong.name, step: 3 });
    },
  );

  it('runVectors reports a wrong decision of one limit of several', async () => {
    const file = JSON.parse(text) as VectorFile;
    const joint = file.cases.find((each) => each.policies.length > 1);
    const wrong = structuredClone(joint) as unknown as {
      steps: { expect: { limits: { remaining: number }[] } }[];
    };
    wrong.steps[0].expect.limits[1].remaining += 1;
    const vectors = parseVectors(JSON.stringify({ version: 1, cases: [wrong] }));
    expect((await runVectors(vectors, () => memoryStore())).failed).toBe(1);
  });

  it('runVectors reports a check that throws as a difference', async () => {
    const policies = [{ algorithm: 'sliding-log', limit: 5, windowMs: 1000 }];
    const expected = { allowed: true, remaining: 0, retryAfterMs: 0, resetAfterMs: 0 };
    const steps = [{ at: 1, op: 'check', cost: 6, expect: expected }];
    const cases = [{ name: 'too much', policies, steps }];
    const vectors = parseVectors(JSON.stringify({ version: 1, cases }));
    const { differences } = await runVectors(vectors, () => memoryStore());
    expect(String(differences[0].got)).toContain('Expected the cost to be at most 5');
  });

  it('runVectors reports an invalid policy as a difference', async () => {
    const cases = [{ name: 'bad', policies: [{ limit: 0, windowMs: 1 }], steps: [] }];
    const vectors = parseVectors(JSON.stringify({ version: 1, cases }));
    const { failed, differences } = await runVectors(vectors, () => memoryStore());
    expect(failed).toBe(1);
    expect(String(differences[0].got)).toContain('Expected the limit of policy');
  });

  it.each([
    ['{}', 'Expected version 1 or 2, got undefined'],
    ['{"version":3,"cases":[]}', 'Expected version 1 or 2, got 3'],
    ['{"version":1,"cases":[]}', 'Expected `cases` to be an array of at least one case'],
    ['{"version":1,"cases":[{"name":"x"}]}', 'Expected policies in case 0 (x)'],
    [
      '{"version":1,"cases":[{"name":"x","policies":[{}],"steps":[{"at":1,"op":"chek"}]}]}',
      'an `op` of check peek release renew refund reset in step 0 of case 0 (x)',
    ],
    [
      '{"version":1,"cases":[{"name":"x","policies":[{}],"steps":[{"at":1,"op":"check"}]}]}',
      'Expected `expect` in step 0 of case 0 (x)',
    ],
    ['not json', 'JSON'],
  ])('parseVectors rejects %s', (file, message) => {
    expect(() => parseVectors(file)).toThrow(message);
  });
});
