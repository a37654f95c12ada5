import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from './running.ts';

describe('POST /v1/check', () => {
  let running: Running;
  beforeAll(async () => {
    const policies = [policy('few', 2, '1m'), policy('many', 100, '1h')];
    running = await startRunning({ config: { policies } });
  });
  afterAll(() => running.close());

  test('answers 200 whether it is allowed or not', async () => {
    const answers = [];
    for (let call = 0; call < 3; call++) {
      answers.push(await running.post('/v1/check', { policy: 'few', key: 'a' }));
    }
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(answers.map(({ json }) => json.allowed)).toEqual([true, true, false]);
    expect(answers[2].json.retryAfterMs).toBeGreaterThan(0);
  });
});
